//! Commands beside a server that stays: the socket, tokens over TCP, and who waits for what (I-1b, I-18, I-19b).

use crate::cycle::ASKS;
use crate::home::{Home, text};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Looks until it is so.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    #[allow(clippy::disallowed_methods, reason = "a test waits by a real clock")]
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited for long: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A port that nobody listens at now.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

pub(crate) struct Server {
    child: Child,
    /// What it printed when it was up.
    pub(crate) up: Value,
    _rest: BufReader<ChildStdout>,
}

impl Server {
    /// Starts `serve` or `dev` on a free port, and reads what it prints once it answers.
    pub(crate) fn start(home: &Home, words: &[&str]) -> Server {
        Server::of(home.command(&[words, &["--listen", "127.0.0.1:0"]].concat()))
    }

    /// Starts what was made ready.
    fn of(command: Command) -> Server {
        Server::if_up(command).expect("it was not killed")
    }

    /// Starts what was made ready; none if it was killed before it said where it is.
    pub(crate) fn if_up(mut command: Command) -> Option<Server> {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut rest = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut line = String::new();
        rest.read_line(&mut line).expect("the server says where it is");
        if line.is_empty() {
            let ended = child.wait().expect("a child can be waited for");
            assert_eq!(ended.signal(), Some(9), "the server ended by itself");
            return None;
        }
        let up = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
        Some(Server { child, up, _rest: rest })
    }

    /// Whether it ended by SIGKILL; it has ended, or is about to.
    pub(crate) fn was_killed(&mut self) -> bool {
        self.child.wait().expect("a child can be waited for").signal() == Some(9)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {signal}");
    }

    /// Asks it to end, and gives its exit code.
    pub(crate) fn end(mut self) -> i32 {
        self.signal("-TERM");
        self.child.wait().expect("a child can be waited for").code().unwrap_or(-1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn commands_use_the_process_that_has_the_directory_open() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let server = Server::start(&home, &["dev"]);
    let mode = |name: &str| home.path().join(name).metadata().expect(name).permissions().mode() & 0o777;
    assert_eq!((mode(".stasis"), mode(".stasis/stasis.sock")), (0o700, 0o600)); // I-18

    // `run FILE` goes to the next stop with a server too; there is a hot window, so it parks a while later.
    home.json(0, &["workflow", "register", "asks.py"]);
    let started = home.json(0, &["run", "start", "asks"]);
    let run = text(&started, "/id").to_owned();
    assert!(["queued", "running"].contains(&text(&started, "/status")), "{started}"); // I-19b
    let mut pending = Value::Null;
    until("the question is asked", || {
        pending = home.json(0, &["approvals", "--run", &run]);
        pending["items"].as_array().is_some_and(|items| items.len() == 1)
    });
    home.json(0, &["approve", text(&pending, "/items/0/id")]); // I-19b
    let outcome = home.json(0, &["run", "wait", &run, "--until", "terminal"]);
    assert_eq!(text(&outcome, "/run/status"), "done");
    assert_eq!(server.end(), 0);
}

#[test]
fn a_command_that_waits_for_long_says_for_what() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let server = Server::start(&home, &["dev"]);
    let mut waiting = home.command(&["run", "asks.py"]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(waiting.stderr.take().expect("stderr is a pipe")).read_line(&mut said).unwrap();
    let run = text(&home.json(0, &["run", "list"]), "/items/0/id").to_owned();
    let what = "A worker holds it while it waits for an approval of Go on?.";
    assert_eq!(said, format!("{run} is running: {what}\n")); // I-16
    home.json(0, &["approve", text(&home.json(0, &["approvals"]), "/items/0/id")]);
    assert_eq!(waiting.wait().unwrap().code(), Some(0)); // I-2
    assert_eq!(server.end(), 0);
}

#[test]
fn an_address_that_is_taken_is_told_as_that() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for words in [["dev", "--listen"], ["serve", "--listen"]] {
        let told = home.problem(1, &[words[0], words[1], &address.to_string()]);
        assert_eq!(text(&told, "/code"), "address_in_use"); // I-47
        assert!(text(&told, "/hint").contains(&format!("port {}", address.port())), "{told}");
    }
}

#[test]
fn serve_keeps_its_store_where_the_configuration_says_and_ends_cleanly() {
    let home = Home::new();
    home.write("stasis.toml", "[store]\nurl = \"sqlite:ledger.db\"\n");
    home.write("good.py", "result = 1\n");
    let server = Server::start(&home, &["serve"]);
    home.json(0, &["run", "good.py"]);
    assert!(home.path().join("ledger.db").exists()); // I-3
    assert_eq!(server.end(), 0);
    assert!(!home.path().join(".stasis/stasis.sock").exists());
    assert_eq!(home.json(0, &["run", "list"])["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_token_works_over_tcp_until_it_is_revoked() {
    let home = Home::new();
    home.write("stasis.toml", "[[principal]]\nid = \"maria\"\nname = \"Maria\"\nkind = \"person\"\n");
    let server = Server::start(&home, &["serve"]);
    let url = text(&server.up, "/url").to_owned();
    let token = home.json(0, &["token", "new", "--principal", "maria"]);
    let secret = text(&token, "/secret").to_owned(); // I-11
    let list = home.json(0, &["token", "list"]);
    assert!(!list.to_string().contains(&secret), "{list}"); // I-11

    let as_maria = ["--server", &url, "--token", &secret];
    home.json(0, &[&["run", "list"], as_maria.as_slice()].concat()); // I-15
    let refused = home.problem(6, &["run", "list", "--server", &url]);
    assert_eq!(text(&refused, "/code"), "unauthenticated"); // I-16
    let refused = home.problem(6, &[&["token", "list"], as_maria.as_slice()].concat());
    assert_eq!(text(&refused, "/code"), "not_permitted"); // I-65
    home.json(0, &["token", "revoke", text(&token, "/id")]);
    home.problem(6, &[&["run", "list"], as_maria.as_slice()].concat()); // I-11
}

#[test]
fn whoever_runs_an_own_program_beside_a_server_answers_it() {
    let home = Home::new();
    home.write("stasis.toml", "[worker]\nhot_window = \"0s\"\n");
    home.write("asks.py", ASKS);
    let _server = Server::start(&home, &["serve"]);
    let outcome = home.json(3, &["run", "asks.py"]);
    assert_eq!(outcome["approvals"][0]["rule"]["separate_requester"], false); // C-55
    let decided = home.json(0, &["approve", text(&outcome, "/approvals/0/id"), "--wait"]);
    assert_eq!(text(&decided, "/run/status"), "done", "{decided}"); // C-55
}

/// What a server answers to one request over TCP, as text.
fn answer(url: &str, request: &str) -> String {
    let address = url.strip_prefix("http://").expect("a url of ours");
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    let (line, rest) = request.split_once('\n').unwrap_or((request, ""));
    let head = format!("{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{rest}\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn tokens_and_sign_ins_stand_in_no_log_event_error_or_metric() {
    let home = Home::new();
    home.write("asks.py", ASKS);
    let log = home.path().join("server.log");
    let mut command = home.command(&["dev", "--listen", "127.0.0.1:0"]);
    command.env("STASIS_LOG", "trace").stderr(std::fs::File::create(&log).expect("writable"));
    let server = Server::of(command);
    let url = text(&server.up, "/url").to_owned();
    let token = text(&server.up, "/token").to_owned();
    let link = text(&server.up, "/sign_in_url").rsplit('/').next().expect("a link").to_owned();
    let minted = home.json(0, &["token", "new", "--principal", "local"]);
    let gone = text(&minted, "/secret").to_owned();
    home.json(0, &["token", "revoke", text(&minted, "/id")]);

    let mut told = String::new();
    home.json(0, &["workflow", "register", "asks.py"]);
    home.json(0, &["run", "start", "asks", "--server", &url, "--token", &token]);
    told += &home.stasis(&["run", "list", "--server", &url, "--token", &gone]).stderr;
    told += &home.stasis(&["run", "list", "--server", &url, "--token", &token]).stdout;
    told += &answer(&url, &format!("POST /console/sign-in/{link}\norigin: {url}\r\ncontent-length: 0\r\n"));
    told += &answer(&url, &format!("POST /console/sign-in/{link}\norigin: {url}\r\ncontent-length: 0\r\n"));
    told += &answer(&url, &format!("GET /v1/runs\nauthorization: Bearer {gone}\r\n"));
    told += &answer(&url, &format!("GET /v1/events?after=\nauthorization: Bearer {token}\r\n"));
    told += &answer(&url, "GET /metrics");
    told += &home.stasis(&["token", "list"]).stdout;
    assert_eq!(server.end(), 0);
    assert!(told.contains("run.queued") && told.contains("stasis_commits_total"), "{told}");
    let logged = std::fs::read_to_string(&log).expect("it logged");
    assert!(logged.contains("DEBUG") && logged.contains("answered"), "{logged}");
    for secret in [&token, &gone, &link] {
        assert!(!told.contains(secret.as_str()) && !logged.contains(secret.as_str()), "{secret}"); // C-222
    }
}

#[test]
fn dev_prints_a_sign_in_and_a_token() {
    let home = Home::new();
    let server = Server::start(&home, &["dev"]);
    assert!(text(&server.up, "/sign_in_url").starts_with(text(&server.up, "/url")), "{}", server.up); // I-1
    let (url, token) = (text(&server.up, "/url"), text(&server.up, "/token"));
    home.json(0, &["run", "list", "--server", url, "--token", token]); // I-1
}

#[test]
fn nobody_at_the_url_is_told_as_such() {
    let refused = Home::new().problem(1, &["run", "list", "--server", "http://127.0.0.1:9"]);
    assert_eq!(text(&refused, "/code"), "server_unreachable");
}

#[test]
fn a_change_of_the_file_under_a_running_server_is_told() {
    let home = Home::new();
    home.write("stasis.toml", "[worker]\npage_size = 64\n");
    home.write("good.py", "result = 1\n");
    let _server = Server::start(&home, &["serve"]);
    let same = home.stasis(&["run", "good.py"]);
    assert!(same.code == 0 && !same.stderr.contains("another configuration"), "{same:?}");
    home.write("stasis.toml", "[worker]\npage_size = 65\n");
    let other = home.stasis(&["run", "good.py"]);
    assert!(other.code == 0 && other.stderr.contains("start it again"), "{other:?}");
}

#[test]
fn an_auditor_reads_what_is_withheld_and_an_approver_gives_more_time() {
    let home = Home::new();
    let people = "[[principal]]\nid = \"aude\"\nrights = [\"runs:read\", \"audit:read\"]\n\
                  [[principal]]\nid = \"bo\"\nroles = [\"approver\"]\n[worker]\nhot_window = \"0s\"\n";
    home.write("stasis.toml", people);
    home.write("asks.py", ASKS);
    let server = Server::start(&home, &["serve"]);
    let url = text(&server.up, "/url").to_owned();
    let outcome = home.json(3, &["run", "asks.py"]);
    let (id, call) = (text(&outcome, "/approvals/0/id").to_owned(), text(&outcome, "/approvals/0/call").to_owned());
    let token = |who: &str| text(&home.json(0, &["token", "new", "--principal", who]), "/secret").to_owned();
    let (aude, bo) = (token("aude"), token("bo"));
    let as_one = |token: &str, words: &[&str]| {
        let flags = ["--server", &url, "--token", token];
        home.json(0, &[words, &flags].concat())
    };
    let shown = as_one(&aude, &["approval", "show", &id]);
    assert_eq!((&shown["withheld"], &shown["arguments"]), (&true.into(), &Value::Null)); // C-282
    let told = home.stasis(&["approval", "show", &id, "--output", "table", "--server", &url, "--token", &aude]).stdout;
    assert!(told.contains("arguments withheld"), "{told}"); // C-282
    let why = ["--reason", "a review"];
    assert!(as_one(&aude, &[&["approval", "read", &id], why.as_slice()].concat())["arguments"].is_object()); // C-282
    assert!(as_one(&aude, &[&["call", "read", &call], why.as_slice()].concat())["arguments"].is_object()); // C-282
    let events = home.json(0, &["run", "events", text(&outcome, "/run/id")]).to_string();
    assert!(events.contains("approval.read") && events.contains("call.read"), "{events}"); // C-282

    let first: protocol::time::Time = text(&outcome, "/approvals/0/expires_at").parse().expect("a time");
    let until = (first + Duration::from_secs(3_600)).to_string();
    let own = home.problem(6, &["approval", "extend", &id, "--until", &until]);
    assert_eq!(text(&own, "/code"), "self_approval_forbidden"); // C-192
    let extended = as_one(&bo, &["approval", "extend", &id, "--until", &until, "--reason", "the board meets then"]);
    assert_eq!(text(&extended, "/expires_at"), until); // C-158
}
