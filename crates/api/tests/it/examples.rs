//! Every JSON example of interfaces.md reads as its type and is written again with the same fields and values.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stasis_api::{Approval, Event, Problem, Run};

const PAGE: &str = include_str!("../../../../docs/spec/interfaces.md");

/// The complete objects among the examples: those without `...` that stand alone in a block, or one after the other.
fn examples() -> Vec<String> {
    let blocks = PAGE.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest));
    let mut found = Vec::new();
    for block in blocks.filter(|block| !block.contains("...")) {
        let mut values = serde_json::Deserializer::from_str(block).into_iter::<Box<serde_json::value::RawValue>>();
        while let Some(Ok(value)) = values.next() {
            found.push(value.get().to_owned());
        }
    }
    found
}

/// Reads the example as `T` and writes it again.
fn round_trip<T: DeserializeOwned + Serialize>(marker: &str) -> (String, String) {
    let mut examples = examples().into_iter().filter(|text| text.contains(marker));
    let example = examples.next().unwrap_or_else(|| panic!("no example has {marker}"));
    let value: T = serde_json::from_str(&example).unwrap_or_else(|error| panic!("{error} in {example}"));
    (example, serde_json::to_string(&value).unwrap())
}

fn same<T: DeserializeOwned + Serialize>(marker: &str) {
    let (example, written) = round_trip::<T>(marker);
    let (example, written): (Value, Value) =
        (serde_json::from_str(&example).unwrap(), serde_json::from_str(&written).unwrap());
    assert_eq!(written, example);
}

#[test]
fn the_run_is_the_example_field_for_field() {
    same::<Run>("\"pattern_digest\""); // I-41, I-40
}

#[test]
fn the_approval_is_the_example_and_its_arguments_stand_byte_for_byte() {
    same::<Approval>("\"asked_arguments_digest\""); // I-40
    let (_, written) = round_trip::<Approval>("\"asked_arguments_digest\"");
    assert!(written.contains(r#""arguments":{"amount":250.5,"order_id":"o-7"}"#), "{written}"); // I-40
}

#[test]
fn the_event_is_the_example() {
    same::<Event>("stasis.event.v1"); // I-40
}

#[test]
fn the_problem_is_the_example() {
    same::<Problem>("urn:stasis:error:already_decided"); // I-36
}

#[test]
fn a_request_with_a_field_that_nobody_knows_is_refused_by_name() {
    use stasis_api::{DecisionRequest, RegisterWorkflow, StartRun};
    let refusals = [
        serde_json::from_str::<StartRun>(r#"{"workflow":"a","inputs":{}}"#).unwrap_err(),
        serde_json::from_str::<DecisionRequest>(r#"{"decision":"approve","principal":"maria"}"#).unwrap_err(),
        serde_json::from_str::<RegisterWorkflow>(r#"{"key":"a","kind":"script","source":"","x":1}"#).unwrap_err(),
    ];
    for refusal in refusals {
        assert!(refusal.to_string().starts_with("unknown field"), "{refusal}"); // I-37
    }
}

#[test]
fn an_input_passes_through_a_request_as_written() {
    let body = r#"{"workflow":"a","input":{"b":1.0,"a":1e2,"n":12345678901234567890}}"#;
    let request: stasis_api::StartRun = serde_json::from_str(body).unwrap();
    assert_eq!(serde_json::to_string(&request).unwrap(), body); // I-40
}
