//! Snapshots that fit and ones that do not (workflows.md section 5.3).

use sandbox::{Binding, Event, FreezeError, Guest, GuestLimits, ThawError};

use crate::support::{World, finish, program, sandbox};

const BINDING: Binding = Binding { run: [4; 16], hop: 2, position: 9 };

async fn waiting(source: &str) -> Guest {
    let mut guest = sandbox().start(&program(source), GuestLimits::default()).await.unwrap();
    let Event::Call(_) = guest.next().await else { panic!("a call") };
    guest
}

async fn snapshot() -> Vec<u8> {
    waiting("result = demo.get(i=3)").await.freeze(&BINDING).await.unwrap().into_bytes()
}

async fn refusal(snapshot: &[u8], binding: Binding) -> ThawError {
    match sandbox().thaw(snapshot, &binding, GuestLimits::default()).await {
        Ok(_) => panic!("it was thawed"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_snapshot_goes_on_with_the_call_it_was_frozen_in() {
    let bytes = snapshot().await;
    let mut guest = sandbox().thaw(&bytes, &BINDING, GuestLimits::default()).await.unwrap();
    let Some(Event::Call(request)) = guest.pending() else { panic!("it waits") };
    // W-243
    assert_eq!(request, br#"{"n":1,"tool":"demo.get","arguments":{"i":3}}"#);
    let mut world = World { entropy: Some([1; 32]), ..World::default() };
    guest.answer(world.answer(&request));
    assert_eq!(finish(&mut guest, &mut world).await, sandbox::End::Returned { result: "300".into() });
    // A small program's snapshot is small: it is what differs from the image.
    assert!(bytes.len() < 80 << 10, "{} bytes", bytes.len());
}

#[tokio::test]
async fn a_snapshot_of_another_run_hop_or_position_is_not_used() {
    let bytes = snapshot().await;
    // W-245
    assert!(matches!(refusal(&bytes, Binding { run: [5; 16], ..BINDING }).await, ThawError::Run));
    assert!(matches!(refusal(&bytes, Binding { hop: 3, ..BINDING }).await, ThawError::Hop));
    assert!(matches!(refusal(&bytes, Binding { position: 8, ..BINDING }).await, ThawError::Position));
}

#[tokio::test]
async fn a_damaged_snapshot_is_never_used_in_part() {
    let bytes = snapshot().await;
    for at in (0..bytes.len()).step_by(bytes.len() / 97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        refusal(&damaged, BINDING).await;
    }
    // W-246
    assert!(matches!(refusal(&bytes[..bytes.len() / 2], BINDING).await, ThawError::Damaged(_)));
    assert!(matches!(refusal(b"", BINDING).await, ThawError::Damaged(_)));
    assert!(sandbox().thaw(&bytes, &BINDING, GuestLimits::default()).await.is_ok());
}

#[tokio::test]
async fn only_a_guest_that_is_blocked_in_a_call_is_frozen() {
    let guest = sandbox().start(&program("result = 1"), GuestLimits::default()).await.unwrap();
    // W-242
    assert!(matches!(guest.freeze(&BINDING).await, Err(FreezeError::NotWaiting)));
    let mut guest = sandbox().start(&program("result = 1"), GuestLimits::default()).await.unwrap();
    let Event::Ended(_) = guest.next().await else { panic!("an end") };
    assert!(matches!(guest.freeze(&BINDING).await, Err(FreezeError::NotWaiting)));
    let mut guest = waiting("demo.get(i=1)").await;
    let Some(Event::Call(request)) = guest.pending() else { panic!("it waits") };
    guest.answer(World::default().answer(&request));
    // Answered, it no longer waits.
    assert!(matches!(guest.freeze(&BINDING).await, Err(FreezeError::NotWaiting)));
}

#[tokio::test]
async fn large_state_comes_back_whole() {
    let source = "\
rows = {i: [str(i), i * 1.5] for i in range(20_000)}
demo.get(i=1)
result = [len(rows), rows[19_999], sum(i for i in rows)]";
    let snapshot = waiting(source).await.freeze(&BINDING).await.unwrap();
    let mut guest = sandbox().thaw(snapshot.bytes(), &BINDING, GuestLimits::default()).await.unwrap();
    let Some(Event::Call(request)) = guest.pending() else { panic!("it waits") };
    let mut world = World { entropy: Some([1; 32]), ..World::default() };
    guest.answer(world.answer(&request));
    // W-250
    assert_eq!(
        finish(&mut guest, &mut world).await,
        sandbox::End::Returned { result: r#"[20000,["19999",29998.5],199990000]"#.into() }
    );
}

#[tokio::test]
async fn a_thawed_guest_can_be_frozen_again_without_an_answer() {
    let first = snapshot().await;
    let guest = sandbox().thaw(&first, &BINDING, GuestLimits::default()).await.unwrap();
    let next = Binding { hop: 3, ..BINDING };
    let second = guest.freeze(&next).await.unwrap();
    let mut guest = sandbox().thaw(second.bytes(), &next, GuestLimits::default()).await.unwrap();
    let Some(Event::Call(request)) = guest.pending() else { panic!("it waits") };
    let mut world = World { entropy: Some([1; 32]), ..World::default() };
    guest.answer(world.answer(&request));
    assert_eq!(finish(&mut guest, &mut world).await, sandbox::End::Returned { result: "300".into() });
}

#[tokio::test]
async fn a_missing_image_names_the_command_that_makes_one() {
    let empty = tempfile::tempdir().unwrap();
    let config = sandbox::SandboxConfig::new(empty.path().join("cache"));
    let Err(error) = sandbox::Sandbox::open(&config, &mut |_| ()) else { panic!("there is no image") };
    // I-69
    assert!(error.to_string().contains("cargo xtask guest"), "{error}");
    let mut config = config;
    let file = empty.path().join("image.wasm");
    std::fs::write(&file, b"\0asm\x01\0\0\0").unwrap();
    config.image = Some(file);
    let Err(error) = sandbox::Sandbox::open(&config, &mut |_| ()) else { panic!("it is no image") };
    assert!(error.to_string().contains("it names no engine"), "{error}");
}
