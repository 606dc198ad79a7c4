//! The export: one signed anchor a line, only ever added to, outside the database (C-277).
//!
//! Invariants: a line that is whole is never changed. A line counts once its end is on disk; what a crash left of one is
//! cut when the file is opened to be written.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The file of an export.
#[derive(Clone, Debug)]
pub(crate) struct Export {
    path: PathBuf,
}

/// How much of the end is read at once, to find where the last line begins.
const STRIDE: u64 = 64 * 1024;

impl Export {
    pub(crate) fn new(path: PathBuf) -> Export {
        Export { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The last whole line; `None` if there is none. Blocks.
    pub(crate) fn last(&self) -> std::io::Result<Option<String>> {
        let Some(mut file) = self.opened()? else { return Ok(None) };
        let end = file.seek(SeekFrom::End(0))?;
        let (mut from, mut tail) = (end, Vec::new());
        loop {
            let step = from.min(STRIDE);
            from -= step;
            file.seek(SeekFrom::Start(from))?;
            let mut front = vec![0; step as usize];
            file.read_exact(&mut front)?;
            front.extend_from_slice(&tail);
            tail = front;
            let whole = tail.iter().rposition(|byte| *byte == b'\n');
            let before = whole.and_then(|end| tail[..end].iter().rposition(|byte| *byte == b'\n'));
            match (whole, before) {
                (Some(end), Some(before)) => return Ok(Some(text(&tail[before + 1..end]))),
                (Some(end), None) if from == 0 => return Ok(Some(text(&tail[..end]))),
                (None, _) if from == 0 => return Ok(None),
                _ => {}
            }
        }
    }

    /// Adds a line, and waits for the disk. Blocks.
    pub(crate) fn append(&self, line: &str) -> std::io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let fresh = !self.path.exists();
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)?;
        let end = whole_lines(&mut file)?;
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()?;
        if fresh { sync_folder(&self.path) } else { Ok(()) }
    }

    /// Hands each whole line to `each`, until it has enough. Blocks.
    pub(crate) fn read<E>(&self, mut each: impl FnMut(&str) -> Result<(), E>) -> std::io::Result<Result<(), E>> {
        let Some(file) = self.opened()? else { return Ok(Ok(())) };
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line)?;
            let Some((b'\n', whole)) = line.split_last() else { return Ok(Ok(())) };
            if let Err(enough) = each(&text(whole)) {
                return Ok(Err(enough));
            }
        }
    }

    fn opened(&self) -> std::io::Result<Option<File>> {
        match File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A line is a text of ours; what is not is no anchor either way, and is told as such.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where the last whole line ends.
fn whole_lines(file: &mut File) -> std::io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    while end > 0 {
        let step = end.min(STRIDE);
        let mut piece = vec![0; step as usize];
        file.seek(SeekFrom::Start(end - step))?;
        file.read_exact(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(end - step + at as u64 + 1);
        }
        end -= step;
    }
    Ok(0)
}

/// Makes the name of a new file last.
pub(super) fn sync_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(export: &Export) -> Vec<String> {
        let mut lines = Vec::new();
        let read: Result<(), ()> = export
            .read(|line| {
                lines.push(line.to_owned());
                Ok(())
            })
            .unwrap();
        read.unwrap();
        lines
    }

    #[test]
    fn what_a_crash_left_of_a_line_is_cut_and_whole_lines_stay() {
        let folder = tempfile::tempdir().unwrap();
        let export = Export::new(folder.path().join("deep/anchors.ndjson"));
        assert_eq!(export.last().unwrap(), None);
        let long = "x".repeat(3 * STRIDE as usize);
        for line in ["one", long.as_str(), "three"] {
            export.append(line).unwrap();
            assert_eq!(export.last().unwrap().as_deref(), Some(line));
        }
        let mut file = OpenOptions::new().append(true).open(export.path()).unwrap();
        file.write_all(long.as_bytes()).unwrap();
        assert_eq!(export.last().unwrap().as_deref(), Some("three"));
        assert_eq!(lines(&export).len(), 3);
        export.append("four").unwrap();
        assert_eq!(lines(&export), ["one", &long, "three", "four"]);
        std::fs::write(export.path(), "torn").unwrap();
        assert_eq!((export.last().unwrap(), lines(&export).len()), (None, 0));
        export.append("one").unwrap();
        assert_eq!(lines(&export), ["one"]);
    }
}
