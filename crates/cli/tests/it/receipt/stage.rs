//! A prepared data directory, a server on it that dies where it is told to, and what stands in the ledger afterwards.

use super::story::Story;
use crate::crash::copy;
use crate::home::{Home, text};
use crate::payments::Payments;
use crate::servers::Server;
use api::event::{Event, TailQuery};
use api::run::Applied;
use api::{Client, ClientError, Run, StartRun};
use std::path::PathBuf;
use std::time::Duration;

/// A story that goes on for longer than this hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);

pub(super) struct Stage {
    home: Home,
    story: Story,
    /// Whose server keeps each mail once, by its key.
    mails: Payments,
    robot: Option<String>,
    base: PathBuf,
    runtime: tokio::runtime::Runtime,
}

/// What came of one kill.
pub(super) struct Receipt {
    /// Where the run was when the server died, as far as anybody outside had seen.
    pub(super) died: String,
    pub(super) counts: String,
}

/// The events of a run.
pub(super) struct Told(Vec<Event>);

impl Told {
    pub(super) fn count(&self, kind: &str) -> usize {
        self.0.iter().filter(|event| event.kind == kind).count()
    }

    /// Each of these happened once.
    pub(super) fn once(&self, kinds: &[&str], what: &str) -> String {
        for kind in kinds {
            assert_eq!(self.count(kind), 1, "{what}: {kind}");
        }
        format!("once: {}", kinds.join(", "))
    }

    /// The program parked once. Recovery may have put the run back to what it waits for, too, or in place of its dead hop; there
    /// was one kill, so once.
    pub(super) fn parked(&self, kind: &str, what: &str) -> String {
        let (recovered, own): (Vec<_>, Vec<_>) =
            self.0.iter().filter(|event| event.kind == kind).partition(|event| is_recovery(event));
        assert!(
            own.len() <= 1 && recovered.len() <= 1 && own.len() + recovered.len() >= 1,
            "{what}: {own:?} {recovered:?}"
        );
        format!("parked {} + {} by recovery", own.len(), recovered.len())
    }
}

fn is_recovery(event: &Event) -> bool {
    event.facts.peek()["cause"] == "recovery"
}

impl Stage {
    pub(super) fn new(story: Story) -> Stage {
        // Another client of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut home = Home::new();
        let mails = Payments::start(&mut home, &[]);
        let example = std::fs::read_to_string(home.path().join("stasis.toml")).expect("the example's");
        home.write("stasis.toml", &(example + &story.configuration(mails.port())));
        home.write("story.py", story.program());
        home.write("model.py", include_str!("../../../../../examples/gpu-wait/model.py"));
        let server = Server::start(&home, &["serve"]);
        home.json(0, &["workflow", "register", "story.py"]);
        let robot = (story == Story::Delegate)
            .then(|| text(&home.json(0, &["token", "new", "--principal", "robot"]), "/secret").to_owned());
        assert_eq!(server.end(), 0);
        let base = home.path().join("base");
        copy(&home.path().join(".stasis"), &base);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Stage { home, story, mails, robot, base, runtime }
    }

    /// Kills the server at one point and starts it again without; none if the story was over before it came to that point.
    pub(super) fn case(&self, at: &str) -> Option<Receipt> {
        let what = format!("{:?} {at}", self.story);
        copy(&self.base, &self.home.path().join(".stasis"));
        let sent = self.mails.outbox().len();
        let mut seen = "not admitted".to_owned();
        if let Some(mut server) = self.serve(Some(at)) {
            match self.carry(&server, &mut seen) {
                Ok(_) => {
                    if server.end() == 0 {
                        return None;
                    }
                    "over; killed while it shut down".clone_into(&mut seen);
                }
                Err(error) => assert!(server.was_killed(), "{what}: {error}"),
            }
        }
        let server = self.serve(None).unwrap_or_else(|| panic!("{what}: it does not start again"));
        let (run, told) = self.carry(&server, &mut String::new()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(server.end(), 0, "{what}");
        assert_eq!(run.status, protocol::run::Status::Done, "{what}: {:?}", run.failure);
        assert_eq!(self.mails.outbox().len() - sent, self.story.effects(), "{what}"); // R-303 C-117
        assert!(run.effects.iter().all(|effect| effect.applied == Some(Applied::Yes)), "{what}: {run:?}");
        for (n, event) in told.0.iter().enumerate() {
            assert_eq!(event.seq, n as u64, "{what}: nothing is lost");
        }
        assert_eq!(told.0.iter().filter(|event| event.is_terminal()).count(), 1, "{what}"); // R-357 R-248
        self.no_model_is_left(&what);
        let counts = self.story.check(&told, &run, &what);
        Some(Receipt { died: seen, counts: format!("{counts}; {} effects, each once", self.story.effects()) })
    }

    /// Starts the server; none if it was killed before it was up.
    fn serve(&self, crash: Option<&str>) -> Option<Server> {
        let mut command = self.home.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.envs(crash.map(|at| ("STASIS_CRASH_AT", at)));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.home.path().join("server.log"));
        command.stderr(log.expect("writable"));
        Server::if_up(command)
    }

    /// Starts the run, or finds it, and does what is asked of those outside until it is over, or the server is.
    fn carry(&self, server: &Server, seen: &mut String) -> Result<(Run, Told), ClientError> {
        let story = async {
            let person = Client::unix(&self.home.path().join(".stasis/stasis.sock"), None).expect("a client");
            let agent = Client::tcp(text(&server.up, "/url"), self.robot.clone()).expect("a client");
            let started = person.start(&StartRun::of("story", None), Some("the-only-one")).await?;
            loop {
                let run = person.run(started.id).await?;
                *seen = format!("{} in hop {}", run.status, run.seq);
                if run.status.is_final() {
                    let query = TailQuery { limit: Some(500), ..TailQuery::default() };
                    return Ok((run.clone(), Told(person.events(run.id, &query).await?.items)));
                }
                self.story.outside(&person, &agent, &run).await?;
                // Poll: the server may be gone at any moment, and a stream of events with it.
                let _ = tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>()).await;
            }
        };
        let story = async { tokio::time::timeout(HANGS_AFTER, story).await };
        self.runtime.block_on(story).unwrap_or_else(|_| panic!("{:?} hangs", self.story))
    }

    /// Model servers end with the server that started them, or are found by the one after it.
    fn no_model_is_left(&self, what: &str) {
        let log = std::fs::read_to_string(self.home.path().join("models.log")).unwrap_or_default();
        let started = log.lines().filter_map(|line| line.strip_prefix("start ")?.rsplit(' ').next());
        let left: Vec<_> = started.filter(|pid| is_a_model(pid)).collect();
        assert_eq!(left, [] as [&str; 0], "{what}");
    }
}

/// Whether a process is a model server that runs; its number may be another's by now.
fn is_a_model(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.contains("model.py"))
}
