//! Log lines of a guest and their limits (W-163).
//!
//! A line is cut at 16 KiB, a run's log at its limit; each cut is told once, in a line of its own. Lines past the limit are
//! dropped before they are copied, so a program that only prints costs its own guest time and nothing else.

use protocol::limits::LOG_LINE_BYTES;

/// One line of a program's output, without its newline, cut to the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    pub text: String,
}

/// Where lines go. It is called on the thread that runs the guest and must not block.
pub type LogSink = Box<dyn FnMut(LogLine) + Send>;

pub(crate) struct Log {
    sink: LogSink,
    limit: u64,
    used: u64,
}

impl Log {
    pub(crate) fn new(sink: LogSink, limit: u64, used: u64) -> Self {
        Self { sink, limit, used }
    }

    /// Takes one line as the guest wrote it.
    pub(crate) fn line(&mut self, bytes: &[u8]) {
        if self.used >= self.limit {
            return;
        }
        let cut = bytes.len() > LOG_LINE_BYTES;
        let kept = if cut { &bytes[..floor(bytes, LOG_LINE_BYTES)] } else { bytes };
        self.put(String::from_utf8_lossy(kept).into_owned());
        if cut {
            self.put(format!("[the line before this one was cut at {LOG_LINE_BYTES} bytes]"));
        }
        if self.used >= self.limit {
            (self.sink)(LogLine { text: format!("[the log of this run ends here: it reached {} bytes]", self.limit) });
        }
    }

    fn put(&mut self, mut text: String) {
        let room = usize::try_from(self.limit.saturating_sub(self.used)).unwrap_or(usize::MAX);
        if room == 0 {
            return;
        }
        if text.len() > room {
            text.truncate(text.floor_char_boundary(room));
            self.used = self.limit;
        } else {
            // The newline that a stored line ends with counts too, so that empty lines are not free.
            self.used += text.len() as u64 + 1;
        }
        (self.sink)(LogLine { text });
    }
}

/// The greatest index up to `at` that splits no UTF-8 character.
fn floor(bytes: &[u8], at: usize) -> usize {
    (at.saturating_sub(3)..=at).rev().find(|&i| bytes[i] & 0xC0 != 0x80).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn lines(limit: u64, used: u64, input: &[&[u8]]) -> Vec<String> {
        let (send, receive) = mpsc::channel();
        let mut log = Log::new(Box::new(move |line| send.send(line.text).expect("the test listens")), limit, used);
        input.iter().for_each(|line| log.line(line));
        drop(log);
        receive.into_iter().collect()
    }

    #[test]
    fn a_long_line_is_cut_and_says_so() {
        let long = "é".repeat(LOG_LINE_BYTES); // twice the limit in bytes
        let got = lines(1 << 20, 0, &[long.as_bytes(), b"next"]);
        // W-163
        assert_eq!(got[0].len(), LOG_LINE_BYTES);
        assert_eq!(got[1], "[the line before this one was cut at 16384 bytes]");
        assert_eq!(got[2..], ["next"]);
    }

    #[test]
    fn a_full_log_says_so_once_and_takes_no_more() {
        let got = lines(10, 4, &[b"abc", b"defghi", b"x", b"y"]);
        // W-163
        assert_eq!(got, ["abc", "de", "[the log of this run ends here: it reached 10 bytes]"]);
    }

    #[test]
    fn a_log_that_was_full_before_stays_silent() {
        assert!(lines(10, 10, &[b"abc"]).is_empty());
    }
}
