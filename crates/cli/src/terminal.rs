//! The person at the terminal, if there is one.
//!
//! Owns reading lines without holding up the runtime: a thread of its own waits for the keyboard and is left behind when
//! the command ends. Questions go to stderr, so that stdout has results only. Without a terminal nothing is ever asked
//! (I-17): [`Terminal::open`] then gives `None`.

use std::io::{self, BufRead, IsTerminal, Write};
use tokio::sync::mpsc;

pub(crate) struct Terminal {
    lines: mpsc::Receiver<String>,
    /// Each word from here lets the reader take one line: what is typed before a question is not its answer.
    wanted: std::sync::mpsc::Sender<()>,
}

impl Terminal {
    /// The terminal, if both what we ask and what is answered go through one.
    pub(crate) fn open() -> Option<Terminal> {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return None;
        }
        let (wanted, wants) = std::sync::mpsc::channel::<()>();
        let (sender, lines) = mpsc::channel(1);
        let read = move || {
            while wants.recv().is_ok() {
                let mut line = String::new();
                match io::stdin().lock().read_line(&mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => drop(sender.blocking_send(line)),
                }
            }
        };
        std::thread::Builder::new().name("terminal".into()).spawn(read).ok()?;
        Some(Terminal { lines, wanted })
    }

    /// Asks, and waits for a line. `None` when the terminal was closed.
    pub(crate) async fn ask(&mut self, question: &str) -> Option<String> {
        {
            let mut stderr = io::stderr().lock();
            let _ = write!(stderr, "{question} ");
            let _ = stderr.flush();
        }
        self.wanted.send(()).ok()?;
        self.lines.recv().await.map(|line| line.trim().to_owned())
    }

    /// A question whose answer is yes only by `y` or `yes`.
    pub(crate) async fn confirm(&mut self, question: &str) -> bool {
        let answer = self.ask(&format!("{question} [y/N]")).await.unwrap_or_default();
        matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes")
    }
}
