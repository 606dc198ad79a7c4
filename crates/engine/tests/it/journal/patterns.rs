//! Patterns: what registering makes, what a run keeps of it over any number of changes, and what is no longer here.

use super::scribe::{detail, events, log, tamper};
use crate::desk::{Desk, Setting, eventually, local, request};
use engine::{Failure, Image, RegisterScript, Registered, StartRun};
use protocol::approval::Verdict;
use protocol::code::Code;
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::json::{Canonical, canonicalize};
use protocol::plan::Plan;
use protocol::run::{Run, Status};
use sandbox::{Sandbox, SandboxConfig};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ASKS: &str = "stasis.gate('go on?')\nresult = payments.order(order_id='a')['id']";

fn script(source: &str) -> RegisterScript {
    RegisterScript { source: source.to_owned(), file_name: "program.py".to_owned(), ..RegisterScript::default() }
}

async fn register(desk: &Desk, request: RegisterScript) -> Registered {
    desk.engine.register(local(), request).await.expect("registered")
}

async fn approve(desk: &Desk, run: RunId) -> Run {
    let asked = desk.asked(run).await;
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    desk.ended(run).await
}

fn code(failure: &Failure) -> Option<Code> {
    match failure {
        Failure::Refused(refusal) => Some(refusal.code),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_makes_the_revision_and_what_is_for_people_or_settings_does_not() {
    let desk = Desk::open().await;
    let first = register(&desk, script(ASKS)).await;
    assert!(first.created && first.active && first.pattern.revision == 1);
    let mut again = script(ASKS);
    again.meta.title = Some("For people".to_owned());
    again.meta.active_limit = Some(Duration::from_secs(7));
    again.meta.memory_bytes = Some(256 << 20);
    let same = register(&desk, again).await;
    let settings = desk.engine.ledger().registry().workflows["program"].settings;
    assert_eq!((settings.active_limit_us, settings.memory_bytes), (7_000_000, 256 << 20)); // R-339
    // W-2 W-3 R-339 R-342
    assert!(!same.created);
    assert_eq!((same.pattern.revision, same.pattern.digest), (1, first.pattern.digest));
    // R-339: registering sets them, and a run copies them.
    let run = desk.run(ASKS, "{}").await;
    let settings = desk.engine.ledger().registry().workflows["program"].settings;
    assert_eq!((settings.active_limit_us, settings.memory_bytes), (60_000_000, 512 << 20));
    assert_eq!((run.settings.active_limit_us, run.settings.memory_bytes), (60_000_000, 512 << 20));

    let manifest = &first.pattern.manifest;
    let fields = serde_json::to_value(manifest).expect("JSON");
    let canonical = canonicalize(fields.to_string().as_bytes()).expect("JSON");
    assert_eq!(Digest::of(canonical.as_bytes()), first.pattern.digest); // R-340
    let names: Vec<&str> = fields.as_object().expect("an object").keys().map(String::as_str).collect();
    let covered = [
        "checkpoint_schema",
        "engine",
        "image",
        "input_schema",
        "key",
        "kind",
        "output_schema",
        "plan",
        "resume",
        "roots",
        "schema",
        "source",
    ];
    assert_eq!(names, covered); // W-2 R-338
    // W-3: by digest, in the ledger.
    let ledger = desk.engine.ledger();
    assert_eq!(ledger.blob(manifest.source).await.expect("read"), Some(ASKS.as_bytes().to_vec()));
    assert!(ledger.blob(manifest.plan).await.expect("read").is_some());

    let other = register(&desk, script(&format!("# a comment\n{ASKS}"))).await;
    assert!(other.created && other.pattern.revision == 2 && other.pattern.digest != first.pattern.digest); // W-3 R-342
    // Equal schemas in other words are equal.
    let schema = |text: &str| {
        let mut request = script(ASKS);
        request.meta.input = Some(canonicalize(text.as_bytes()).expect("JSON"));
        request
    };
    let third = register(&desk, schema(r#"{"type": "object", "required": ["a"]}"#)).await;
    let fourth = register(&desk, schema(r#"{ "required":["a"],"type":"object" }"#)).await;
    assert!(third.created && !fourth.created && third.pattern.digest == fourth.pattern.digest); // R-340
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_short_and_plain() {
    let desk = Desk::open().await;
    let long = "k".repeat(129);
    for key in ["", "-a", "a b", "a/b", "ä", &long] {
        let refused = desk.engine.register(local(), RegisterScript { key: Some(key.to_owned()), ..script(ASKS) }).await;
        assert_eq!(code(&refused.expect_err("refused")), Some(Code::InvalidRequest), "{key}"); // W-1
    }
    let longest = "k".repeat(128);
    for key in ["A", "0.a_b-c", &longest] {
        let named = register(&desk, RegisterScript { key: Some(key.to_owned()), ..script(ASKS) }).await;
        assert_eq!(named.pattern.manifest.key, key); // W-1
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_that_is_refused_leaves_nothing() {
    let desk = Desk::open().await;
    let mut unknown_tool = script(ASKS);
    unknown_tool.meta.tools = Some(vec!["payments.steal".to_owned()]);
    let mut bad_schema = script(ASKS);
    bad_schema.meta.output = Some(canonicalize(br#"{"type": "thing"}"#).expect("JSON"));
    let mut too_many = script(ASKS);
    too_many.meta.max_calls = Some(10_001);
    let too_long = script(&"#".repeat((1 << 20) + 1));
    for request in [script("x = ("), unknown_tool, bad_schema, too_many, too_long] {
        let source = Digest::of(&request.source);
        desk.engine.register(local(), request).await.expect_err("refused");
        assert!(!desk.engine.ledger().registry().workflows.contains_key("program"));
        assert!(desk.engine.ledger().blob(source).await.expect("read").is_none()); // R-346
    }
    // Whatever is wrong is told at once.
    let mut all = script("x = (");
    all.meta.tools = Some(vec!["payments.steal".to_owned()]);
    all.meta.max_calls = Some(10_001);
    all.meta.input = Some(canonicalize(br#"{"$ref": "http://elsewhere/"}"#).expect("JSON"));
    all.meta.output = Some(canonicalize(br#"{"type": "thing"}"#).expect("JSON"));
    let Err(Failure::Several(faults)) = desk.engine.register(local(), all).await else { panic!("refused") };
    assert!(matches!(&faults[0], Failure::Source(fault) if fault.line == 1)); // R-346
    let codes: Vec<_> = faults[1..].iter().map(|fault| code(fault).expect("a refusal")).collect();
    assert_eq!(codes, [Code::ToolInvalid, Code::LimitExceeded, Code::SchemaExternalRef, Code::ToolInvalid]); // R-346
    assert!(!desk.engine.ledger().registry().workflows.contains_key("program")); // R-346
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_keeps_its_revision_whatever_is_registered_and_active() {
    let desk = Desk::open().await;
    let parked = desk.run(ASKS, "{}").await;
    let later = register(
        &desk,
        script("# /// script\n# [tool.stasis]\n# resume = false\n# max_calls = 1\n# ///\nresult = 'later'"),
    )
    .await;
    assert_eq!((later.pattern.revision, later.active), (2, true)); // R-345: registering activates
    let retained = StartRun { revision: Some(1), ..request("{}") };
    let refused = desk.engine.start_run(local(), retained).await.expect_err("refused");
    assert_eq!(code(&refused), Some(Code::RevisionNotActive)); // R-345: retained revisions admit nothing
    let desk = desk.reopen(Setting::default()).await;
    let done = approve(&desk, parked.id).await;
    assert_eq!((done.pattern.revision, desk.result(&done).await.as_str()), (1, "\"a\"")); // R-344 R-345 W-6

    // Activating is an act of its own, and brings back all that the revision says.
    assert!(desk.engine.activate(local(), "program", 1).await.expect("activated")); // R-345
    let third = register(&desk, RegisterScript { inactive: true, ..script("result = 3") }).await;
    assert!(!third.active); // R-345: unless told not to
    let started = desk.engine.start_run(local(), request("{}")).await.expect("started");
    let again = desk.stopped(started.run.id).await;
    assert_eq!((again.pattern.revision, again.status()), (1, Status::AwaitingConsent));
    assert!(again.settings.resume && again.settings.max_calls == 10_000, "{:?}", again.settings); // R-339
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_uses_the_tools_of_its_plan() {
    let desk = Desk::open().await;
    let url = desk.payments.url.clone();
    let source = "
stasis.gate('go on?')
order = payments.order(order_id='a')
try:
    mail.send(to='x')
except stasis.Denied as error:
    result = [order, error.code]
";
    let run = desk.run(source, "{}").await;
    let tool = |path: &str| {
        format!(
            "[[tool]]\nname = \"payments.order\"\nversion = \"9\"\neffect = \"read\"\ndescription = \"Elsewhere\"\n\
             input = {{ type = \"object\", required = [\"n\"] }}\nhttp = {{ method = \"GET\", url = \"{url}{path}\" }}\n"
        )
    };
    desk.apply(&tool("/nowhere")).await;
    desk.engine.withdraw(local(), "mail.send", None, None).await.expect("withdrawn");
    let done = approve(&desk, run.id).await;
    // R-348: the sealed version is called, and a withdrawn one fails its call and not the run.
    assert_eq!(desk.result(&done).await, r#"[{"amount":250.5,"id":"a"},"tool_unavailable"]"#);
    assert!(desk.payments.applied().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_are_judged_at_the_door_and_outputs_at_the_end() {
    let desk = Desk::open().await;
    let mut strict = script("payments.refund(order_id='a', amount=1)\nresult = inputs.get('give', 'x' * 1_048_575)");
    strict.meta.input =
        Some(canonicalize(br#"{"type": "object", "properties": {"give": {"type": "string"}}}"#).expect("JSON"));
    strict.meta.output = Some(canonicalize(br#"{"type": "string", "minLength": 2}"#).expect("JSON"));
    register(&desk, strict).await;
    let refused = desk.engine.start_run(local(), request(r#"{"give": 7}"#)).await.expect_err("refused");
    assert_eq!(code(&refused), Some(Code::InvalidInput)); // W-9
    for (input, says) in [(r#"{"give":"x"}"#, "the result at ``: "), ("{}", "the result has 1048577 bytes")] {
        let started = desk.engine.start_run(local(), request(input)).await.expect("started");
        let run = desk.ended(started.run.id).await;
        let failure = run.failure().expect("failed");
        assert_eq!(failure.code, Code::ResultInvalid, "{failure:?}"); // W-10
        assert!(failure.message.starts_with(says), "{}", failure.message);
        let effects = desk.engine.ledger().effects(false, Some(run.id), None, 10).await.expect("read");
        assert_eq!(effects.items.len(), 1); // W-10: its effects are listed
    }
    let started = desk.engine.start_run(local(), request(r#"{"give":"xy"}"#)).await.expect("started");
    let run = desk.ended(started.run.id).await;
    assert_eq!(desk.result(&run).await, "\"xy\""); // W-10
    // W-9: they never change.
    assert_eq!(
        desk.engine.ledger().body(run.id, run.input.digest).await.expect("read").as_deref(),
        Some(&br#"{"give":"xy"}"#[..])
    );
}

/// How a parked run fails whose pattern is no longer whole.
async fn unavailable(desk: &Desk, run: RunId) -> String {
    let ended = approve(desk, run).await;
    let failure = ended.failure().expect("failed");
    let text = format!("pinned Pattern unavailable: program@{}", ended.pattern.revision);
    assert_eq!((failure.code, &failure.message), (Code::PinnedPatternUnavailable, &text)); // W-6 R-324
    assert_eq!(ended.journal.len, 2); // W-6: no guest was made
    detail(failure)["why"].as_str().expect("a reason").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_that_is_not_stored_whole_is_unavailable() {
    let table = [
        ("DELETE FROM blob WHERE digest = X'{source}'", "its source is not stored"),
        ("UPDATE blob SET codec = 0, len = 1, bytes = X'00' WHERE digest = X'{source}'", "its source is damaged: "),
        ("DELETE FROM blob WHERE digest = X'{plan}'", "its plan is not stored"),
    ];
    for (damage, why) in table {
        let desk = Desk::open().await;
        let run = desk.run(ASKS, "{}").await;
        // A newer revision is never used instead.
        let newer = register(&desk, script("result = 'newer'")).await;
        assert_eq!(newer.pattern.revision, 2);
        let workflow = desk.engine.ledger().registry().workflows["program"].clone();
        let manifest = &workflow.patterns[&1].manifest;
        let damage = damage.replace("{source}", &manifest.source.hex()).replace("{plan}", &manifest.plan.hex());
        tamper(&desk, &damage);
        let desk = desk.reopen(Setting::default()).await;
        let told = unavailable(&desk, run.id).await; // W-5 W-6 R-323
        assert!(told.starts_with(why), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_says_too_little_stops_no_start_and_is_the_pin_text_of_its_runs() {
    let without =
        |key: &str| format!("UPDATE pattern SET manifest = json_remove(manifest, '$.{key}') WHERE revision = 1");
    for damage in [without("schema"), "UPDATE pattern SET digest = x'' WHERE revision = 1".to_owned()] {
        let desk = Desk::open().await;
        let run = desk.run(ASKS, "{}").await;
        register(&desk, script("result = 'newer'")).await;
        tamper(&desk, &damage);
        let desk = desk.reopen(Setting::default()).await; // R-279
        assert_eq!(desk.engine.ledger().registry().unreadable.len(), 1);
        let ended = approve(&desk, run.id).await;
        let failure = ended.failure().expect("failed");
        assert_eq!(failure.code, Code::PinnedPatternUnavailable);
        assert_eq!(failure.message, "pinned Pattern unavailable: program@1"); // R-329
        // Others are none the worse.
        let other = desk.engine.start_run(local(), request("{}")).await.expect("started").run.id;
        assert_eq!(desk.result(&desk.ended(other).await).await, "\"newer\"");
    }
}

/// A cache folder of a test's own.
struct Cache {
    folder: tempfile::TempDir,
    images: PathBuf,
}

impl Cache {
    fn new() -> Cache {
        let folder = tempfile::tempdir().expect("a folder");
        let images = sandbox::cache::guests_dir(folder.path()).expect("private");
        fs::create_dir(images.join("compiled")).expect("a folder");
        Cache { folder, images }
    }

    /// Puts an image here, with its code, which is that of this build's own image.
    fn put(&self, image: &[u8]) -> Digest {
        let home = sandbox::cache::guests_dir(&sandbox::cache::default_dir().expect("a cache")).expect("private");
        let here = crate::desk::image().digest.hex();
        let digest = Digest::of(image);
        fs::write(self.images.join(sandbox::cache::image_name(digest)), image).expect("written");
        for code in fs::read_dir(home.join("compiled")).expect("a folder").map(|entry| entry.expect("an entry").path())
        {
            let name = code.file_name().and_then(|name| name.to_str()).expect("a name");
            if let Some(settings) = name.strip_prefix(&here) {
                fs::copy(&code, self.compiled(&format!("{}{settings}", digest.hex()))).expect("copied");
            }
        }
        digest
    }

    fn compiled(&self, name: &str) -> PathBuf {
        self.images.join("compiled").join(name)
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.images.join(sandbox::cache::image_name(digest))
    }

    fn open(&self) -> Setting {
        let opened = Sandbox::open(&SandboxConfig::new(self.folder.path().to_owned()), &mut |_| ());
        Setting { image: Image::Found(opened.expect("an image")), ..Setting::default() }
    }
}

/// The same guest as another image: with a section more, that says nothing.
fn older(image: &[u8]) -> Vec<u8> {
    let section = b"\x00\x07\x05older\x01";
    [image, section].concat()
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("an image")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_returns_on_the_image_it_was_pinned_to() {
    let newest = read(&crate::desk::image_path());
    let cache = Cache::new();
    let old = cache.put(&older(&newest));
    let source = "n = sum(i * i for i in range(200_000))\nstasis.gate('go on?')\nresult = n";
    let desk = Desk::with(cache.open()).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        let run = desk.run(source, "{}").await;
        assert_eq!(run.checkpoint.as_ref().and_then(|c| c.snapshot.as_ref()).map(|s| s.image), Some(old));
        runs.push(run.id);
    }

    // An upgrade: the newest image is another one, and is what new patterns pin.
    let new = cache.put(&newest);
    let desk = desk.reopen(cache.open()).await;
    let upgraded = register(&desk, script(source)).await;
    assert_eq!((upgraded.pattern.revision, upgraded.pattern.manifest.image), (2, Some(new))); // W-1
    let done = approve(&desk, runs[0]).await;
    assert_eq!(desk.result(&done).await, "2666646666700000"); // R-344 R-343
    assert!(events(&desk, runs[0], "checkpoint.snapshot_unused").await.is_empty());

    // Its image has rotted, and then it is gone: it is told at start, and of runs that it holds up only.
    let whole = read(&cache.path(old));
    fs::write(cache.path(old), [&whole[..], b"!"].concat()).expect("written");
    let file = fs::File::options().append(true).open(cache.path(old)).expect("the image");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a time");
    let desk = desk.reopen(cache.open()).await;
    let told = unavailable(&desk, runs[1]).await; // W-5 R-323
    assert!(told.contains("is damaged"), "{told}");
    fs::remove_file(cache.path(old)).expect("removed");
    let desk = desk.reopen(cache.open()).await;
    let healthy = desk.run(source, "{}").await;
    eventually("the report", async || desk.engine.stuck_known() == 1).await; // W-8
    let stuck = desk.engine.stuck().await.expect("read");
    assert_eq!(stuck.iter().map(|found| found.run.clone()).collect::<Vec<_>>(), [runs[2].to_string()]); // W-8
    assert!(
        stuck[0].detail.starts_with("no worker for program@1: no guest image")
            || stuck[0].detail.contains(&old.to_string())
    ); // W-8
    assert_eq!(desk.engine.blocked(runs[2]).map(|found| found.cause), Some(engine::Cause::WithoutWorker)); // W-8
    assert!(desk.engine.blocked(healthy.id).is_none());
    let told = unavailable(&desk, runs[2]).await; // W-6
    assert!(told.contains(&old.to_string()) && told.contains("put its file back"), "{told}");
    // Others go on.
    let started = desk.engine.start_run(local(), request("{}")).await.expect("started");
    let done = approve(&desk, started.run.id).await;
    assert_eq!(done.status(), Status::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_image_scripts_are_told_so_and_everything_else_works() {
    let why = "no guest image in /nowhere: build one with `cargo xtask guest`, or name one as [guest] image";
    let missing = Setting { image: Image::Missing { why: why.to_owned() }, ..Setting::default() };
    let desk = Desk::with(missing.clone()).await;
    let Err(Failure::Image(told)) = desk.register(ASKS).await else { panic!("refused") };
    assert_eq!(told, why); // I-69
    assert!(desk.engine.ledger().runs(store::RunFilter::default(), None, 10).await.expect("read").items.is_empty());

    // A run that is pinned to an image of the cache returns on it all the same.
    let desk = Desk::open().await;
    let run = desk.run(ASKS, "{}").await;
    let desk = desk.reopen(missing).await;
    eventually("an engine", async || !desk.engine.recovering()).await;
    let done = approve(&desk, run.id).await;
    assert_eq!(done.status(), Status::Done, "{:?}", done.phase); // R-344
    assert!(log(&desk, run.id).await.is_empty());
}

/// Name and version of each tool in the plan of a registered program.
async fn planned(desk: &Desk, registered: &Registered) -> Vec<String> {
    let plan = desk.engine.ledger().blob(registered.pattern.manifest.plan).await.expect("read").expect("a plan");
    let plan: Plan =
        String::from_utf8(plan).expect("text").parse::<Canonical>().expect("JSON").parse().expect("a plan");
    plan.tools.iter().map(|tool| format!("{}@{}", tool.name, tool.version)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_the_tools_of_the_configuration_in_force() {
    let desk = Desk::open().await;
    let tool = |name: &str, version: &str, more: &str| {
        format!(
            "[[tool]]\nname = \"{name}\"\nversion = \"{version}\"\neffect = \"read\"\ndescription = \"A tool\"\n\
             input = {{ type = \"object\" }}\ncommand = {{ argv = [\"/bin/cat\"] }}\n{more}\n"
        )
    };
    let pays = "[[tool]]\nname = \"shop.pay\"\nversion = \"1\"\neffect = \"write\"\ndescription = \"Pay\"\n\
                input = { type = \"object\" }\ncommand = { argv = [\"/bin/cat\"] }\n\
                recovery = \"lookup\"\nlookup = { tool = \"shop.find\", arguments = {} }\n";
    let all = format!("{}{}{pays}", tool("shop.look", "1", ""), tool("shop.find", "1", ""));
    desk.apply(&all).await;
    let first = register(&desk, script("result = 1")).await;
    assert_eq!(planned(&desk, &first).await, ["shop.find@1", "shop.look@1", "shop.pay@1"]); // I-68: all, and no former ones
    let mut named = script("result = 2");
    named.meta.tools = Some(vec!["shop.pay".to_owned()]);
    let named = register(&desk, named).await;
    assert_eq!(planned(&desk, &named).await, ["shop.find@1", "shop.pay@1"]); // C-13 I-68

    // A later version, and then the one before it again: what the file says now counts, not what came last.
    desk.apply(&tool("shop.look", "2", "")).await;
    assert_eq!(planned(&desk, &register(&desk, script("result = 3")).await).await, ["shop.look@2"]); // I-68
    desk.apply(&tool("shop.look", "1", "")).await;
    let desk = desk.reopen(Setting::default()).await;
    assert_eq!(planned(&desk, &register(&desk, script("result = 4")).await).await, ["shop.look@1"]); // I-19 I-68
    let mut gone = script("result = 5");
    gone.meta.tools = Some(vec!["shop.pay".to_owned()]);
    let refused = desk.engine.register(local(), gone).await.expect_err("refused");
    assert_eq!(code(&refused), Some(Code::ToolInvalid)); // I-68
}
