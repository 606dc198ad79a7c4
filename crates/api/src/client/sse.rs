//! The text of a server-sent event stream, cut into frames.
//!
//! Pure: bytes in, frames out, however the network cut them. Owns nothing of what a frame means.

/// One frame with data. Comments and fields we do not use (`retry`) are dropped.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    pub(super) event: String,
    pub(super) id: Option<String>,
    pub(super) data: String,
}

/// A line longer than this ends the stream: no event comes near it (8 KiB of facts, R-358).
const MAX_LINE: usize = 4 << 20;

#[derive(Default)]
pub(super) struct Frames {
    rest: Vec<u8>,
    open: Frame,
    has_data: bool,
}

/// A line beyond [`MAX_LINE`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Frames {
    /// Takes the next bytes and gives the frames that they complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, TooLong> {
        self.rest.extend_from_slice(bytes);
        let mut frames = Vec::new();
        let mut start = 0;
        while let Some(length) = self.rest[start..].iter().position(|&b| b == b'\n') {
            let line = String::from_utf8_lossy(&self.rest[start..start + length]).into_owned();
            start += length + 1;
            frames.extend(self.line(line.trim_end_matches('\r')));
        }
        self.rest.drain(..start);
        if self.rest.len() > MAX_LINE { Err(TooLong) } else { Ok(frames) }
    }

    fn line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let complete = std::mem::take(&mut self.open);
            return std::mem::take(&mut self.has_data).then_some(complete);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.open.event = value.to_owned(),
            "id" => self.open.id = Some(value.to_owned()),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.open.data.push('\n');
                }
                self.open.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": hello\n\nevent: run.queued\nid: 0\ndata: {\"seq\":0}\n\n: beat\n\nid: 1\r\nevent:x\r\ndata: a\r\ndata:  b\r\n\r\nevent: cut";

    #[test]
    fn frames_are_the_same_wherever_the_network_cuts() {
        let frame =
            |event: &str, id: &str, data: &str| Frame { event: event.into(), id: Some(id.into()), data: data.into() };
        let wanted = vec![frame("run.queued", "0", "{\"seq\":0}"), frame("x", "1", "a\n b")];
        for size in 1..STREAM.len() {
            let mut frames = Frames::default();
            let mut got = Vec::new();
            for chunk in STREAM.as_bytes().chunks(size) {
                got.extend(frames.feed(chunk).unwrap());
            }
            assert_eq!(got, wanted, "chunks of {size}");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut frames = Frames::default();
        assert_eq!(frames.feed(&vec![b'x'; MAX_LINE + 1]), Err(TooLong));
    }
}
