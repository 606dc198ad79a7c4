//! Calls that name content kept elsewhere: what was approved is what is there when the call is made (C-142).

use super::{open_with, receipted};
use crate::desk::{Desk, Setting, eventually};
use crate::shop::{Reply, Shop};
use engine::Failure;
use protocol::approval::{Approval, Status, Verdict};
use protocol::code::Code;
use protocol::digest::Digest;
use protocol::id::RunId;
use protocol::limits::OPERAND_BYTES;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A tool of the shop that names a file and a url, each of them or lists of them.
async fn tool(approval: &str) -> (Desk, Shop, tempfile::TempDir) {
    let (desk, shop) = open_with(Setting::default(), "").await;
    let more = format!(
        r#"
[[tool]]
name = "shop.ship"
version = "1"
effect = "write"
description = "Ship what is named"
input = {{ type = "object" }}
operands = [{{ pointer = "/file", kind = "file" }}, {{ pointer = "/url", kind = "url" }}]
http = {{ method = "POST", url = "{}/ship", headers = {{ Authorization = "Bearer of-the-shop" }} }}
approval = {{ edit = "yes"{approval} }}
"#,
        shop.url()
    );
    desk.apply(&format!("{}{more}", shop.tools())).await;
    (desk, shop, tempfile::tempdir().expect("a folder"))
}

const SHIPS: &str = "
try:
    shop.ship(**inputs)
    result = 'shipped'
except stasis.ToolError as error:
    result = [error.code, str(error)]
";

async fn told(desk: &Desk, run: RunId) -> Value {
    let ended = desk.ended(run).await;
    serde_json::from_str(&desk.result(&ended).await).expect("JSON")
}

fn write(path: PathBuf, text: &str) -> PathBuf {
    fs::write(&path, text).expect("written");
    path
}

/// Asks, does something, approves, and says what became of it.
async fn approved_after(desk: &Desk, inputs: &Value, between: impl FnOnce()) -> (Approval, Value) {
    let run = desk.run(SHIPS, &inputs.to_string()).await.id;
    let asked = desk.asked(run).await;
    between();
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    let told = told(desk, run).await;
    (desk.approval(asked.id).await, told)
}

fn hashes(approval: &Approval) -> Vec<(&str, Digest)> {
    approval.binding.operands.iter().map(|(pointer, digest)| (pointer.as_str(), *digest)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_made_with_the_very_content_that_was_approved() {
    let (desk, shop, folder) = tool("").await;
    let (one, two) = (write(folder.path().join("one"), "one"), write(folder.path().join("two"), ""));
    let url = format!("{}/manifest?of=1", shop.url());
    shop.tell("/manifest", [Reply::Says(200, "the same"), Reply::Says(200, "the same")]);
    // What is left out, or null, names nothing; a list names one with each item.
    let inputs = json!({"file": [one, two], "url": url, "other": null});
    let (approval, told) = approved_after(&desk, &inputs, || ()).await;
    assert_eq!(told, "shipped");
    let read = [("/file/0", Digest::of("one")), ("/file/1", Digest::of("")), ("/url", Digest::of("the same"))];
    assert_eq!(hashes(&approval), read); // C-142
    assert_eq!(approval.binding_digest, approval.binding.digest()); // C-136
    assert_eq!((shop.seen("/manifest").len(), shop.seen("/ship").len()), (2, 1)); // C-142: when asked, and at the gate
    let (approval, told) = approved_after(&desk, &json!({"file": null}), || ()).await;
    assert_eq!((told, hashes(&approval)), (json!("shipped"), vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_changed_after_the_yes_is_never_used() {
    let (desk, shop, folder) = tool("").await;
    let path = |name: &str| folder.path().join(name);
    let link = |to: &str| std::os::unix::fs::symlink(path(to), path("link")).expect("linked");
    write(path("good"), "as it was shown");
    write(path("bad"), "something else");
    link("good");
    let changes: [(&str, &str, &dyn Fn()); 4] = [
        ("renamed", "good", &|| {
            fs::copy(path("bad"), path("new")).expect("copied");
            fs::rename(path("new"), path("good")).expect("renamed");
        }),
        ("linked", "link", &|| {
            fs::remove_file(path("link")).expect("unlinked");
            link("bad");
        }),
        ("written in place", "good", &|| drop(write(path("good"), "as it was shown!"))),
        ("gone", "good", &|| fs::remove_file(path("good")).expect("removed")),
    ];
    for (how, name, change) in changes {
        write(path("good"), "as it was shown");
        let (approval, told) = approved_after(&desk, &json!({"file": path(name)}), change).await;
        assert_eq!(hashes(&approval), [("/file", Digest::of("as it was shown"))], "{how}");
        let why = "shop.ship: the content named by `/file` is not what was approved (operand_changed)";
        assert_eq!(told, json!(["operand_changed", why]), "{how}"); // C-142 C-291 C-109
        let Status::Approved { phase, .. } = &approval.status else { panic!("{:?}", approval.status) };
        assert!(format!("{phase:?}").contains("InvalidatedBeforeDispatch(OperandChanged)"), "{how}: {phase:?}"); // C-109
    }
    let url = format!("{}/manifest", shop.url());
    for changed in [Reply::Says(200, "v2"), Reply::Says(404, "v1"), Reply::Says(200, "v1 ")] {
        shop.tell("/manifest", [Reply::Says(200, "v1"), changed]);
        let (approval, told) = approved_after(&desk, &json!({"url": url}), || ()).await;
        assert_eq!(hashes(&approval), [("/url", Digest::of("v1"))]);
        assert_eq!(told[0], "operand_changed"); // C-142 C-291
    }
    assert!(shop.seen("/ship").is_empty()); // C-142 C-291: no handler started
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_about_content_that_cannot_be_read() {
    let (desk, shop, folder) = tool(", separate_requester = true").await;
    let path = |name: &str| folder.path().join(name);
    let sized = |name: &str, len: u64| {
        File::create(path(name)).and_then(|file| file.set_len(len)).expect("a sparse file");
        path(name)
    };
    rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .expect("a pipe that nobody writes");
    let elsewhere = Shop::open().await;
    shop.tell("/gone", [Reply::Says(410, "")]);
    let at = |path: &str| format!("{}{path}", shop.url());
    let host = shop.url().strip_prefix("http://").expect("a plain url").to_owned();
    let unreadable = [
        (json!({"file": path("missing")}), "cannot be read: No such file"),
        (json!({"file": "relative/file"}), "is no absolute path"),
        (json!({"file": folder.path()}), "is no file"),
        (json!({"file": path("pipe")}), "is no file"),
        (json!({"file": "/dev/zero"}), "is no file"),
        (json!({"file": sized("large", OPERAND_BYTES + 1)}), "has more than 67108864 bytes"),
        (json!({"file": 7}), "is no text that names content"),
        (json!({"file": [path("missing"), 7]}), "`/file/0` cannot be read"),
        (json!({"file": vec![path("missing"); 17]}), "operands exceeded: 17 > 16"),
        (json!({"url": at("/gone")}), "answers 410 Gone"),
        (json!({"url": "no url"}), "is no url"),
        (json!({"url": "file:///etc/passwd"}), "scheme `file`"),
        (json!({"url": format!("http://user@{host}/")}), "with a user name"),
        // Whoever wrote the argument does not choose where this machine connects.
        (json!({"url": elsewhere.url()}), "is not in the grant"),
        (json!({"url": "http://169.254.169.254/latest"}), "is not in the grant"),
    ];
    for (inputs, why) in unreadable {
        // Nobody could decide it either; what cannot be read is told first (C-80).
        let run = desk.run(SHIPS, &inputs.to_string()).await;
        let told = told(&desk, run.id).await;
        assert_eq!(told[0], "operand_unavailable", "{inputs}: {told}"); // C-80 C-142
        assert!(told[1].as_str().expect("text").contains(why), "{inputs}: {told}");
        assert_eq!(receipted(&desk, run.id).await, ["main/1 shop.ship denied operand_unavailable"]); // C-80
    }
    let largest = json!({"file": sized("largest", OPERAND_BYTES)});
    let run = desk.run(SHIPS, &largest.to_string()).await;
    assert_eq!(told(&desk, run.id).await[0], "no_approver"); // C-80: it was read
    assert!(shop.seen("/ship").is_empty() && elsewhere.seen("/").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_binds_the_content_that_the_new_arguments_name() {
    let (desk, shop, folder) = tool("").await;
    let path = |name: &str| write(folder.path().join(name), name);
    let run = desk.run(SHIPS, &json!({"file": path("one")}).to_string()).await.id;
    let asked = desk.asked(run).await;
    let edit = |to: &Path| json!({"file": to}).to_string();
    let missing = edit(&folder.path().join("missing"));
    let refused = desk.decide_with(asked.id, Verdict::Approve, Some(&missing)).await.expect_err("unreadable");
    let Failure::Refused(refusal) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.code, Code::EditRefused); // C-173
    assert!(refusal.detail.starts_with("operand_unavailable: `/file` cannot be read"), "{}", refusal.detail); // C-173
    desk.decide_with(asked.id, Verdict::Approve, Some(&edit(&path("two")))).await.expect("edited");
    assert_eq!(told(&desk, run).await, "shipped");
    let approval = desk.approval(asked.id).await;
    assert_eq!(hashes(&approval), [("/file", Digest::of("two"))]); // C-142 C-173
    assert_eq!(shop.seen("/ship")[0].body, edit(&folder.path().join("two")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_does_not_wait_for_content_that_is_being_read() {
    let (desk, shop, _folder) = tool("").await;
    shop.tell("/slow", [Reply::Holds]);
    let run = desk.begin(SHIPS, &json!({"url": format!("{}/slow", shop.url())}).to_string()).await;
    shop.reached("/slow", 1).await;
    desk.cancel(run).await;
    // Its answer never comes, and reading it could take half a minute.
    eventually("cancelled", async || {
        let run = desk.engine.ledger().run(run).await.expect("read").expect("a run");
        run.status() == protocol::run::Status::Cancelled
    })
    .await;
    assert!(desk.pending(run).await.is_empty() && shop.seen("/ship").is_empty()); // C-292
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_while_content_is_read_loses_neither_question_nor_call() {
    let (desk, shop, _folder) = tool("").await;
    shop.tell("/slow", [Reply::Holds]);
    let run = desk.begin(SHIPS, &json!({"url": format!("{}/slow", shop.url())}).to_string()).await;
    shop.reached("/slow", 1).await;
    let desk = desk.reopen(Setting::default()).await;
    let asked = desk.asked(run).await;
    assert_eq!(hashes(&asked), [("/url", Digest::of(r#"{"done":true}"#))]); // C-142
    // And once more, between the yes and the call.
    shop.tell("/slow", [Reply::Holds]);
    let read = shop.seen("/slow").len();
    desk.decide(asked.id, Verdict::Approve).await.expect("approved");
    shop.reached("/slow", read + 1).await;
    let desk = desk.reopen(Setting::default()).await;
    assert_eq!(told(&desk, run).await, "shipped"); // C-142
    assert_eq!(shop.seen("/ship").len(), 1);
}
