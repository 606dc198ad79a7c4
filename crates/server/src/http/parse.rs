//! What a body or a query says, read strictly into its type.
//!
//! Owns the way from bytes to a request type and the words for what is wrong with them: the JSON is read by the one
//! strict parser, so repeated keys, halves of characters and endless nesting are refused before a type is looked at,
//! numbers stay as written (C-24 to C-35), and an unknown field is named with the nearest known one (I-37).

use super::nearest::nearest;
use super::problem::Refused;
use crate::service::problem::problem;
use api::Fault;
use axum::extract::Query;
use axum::http::Uri;
use protocol::code::Code;
use protocol::json::{self, Bounds};
use serde::de::DeserializeOwned;

/// What a body may hold beside its inner bodies, which the service bounds each on its own.
const ENVELOPE_DEPTH: usize = 8;
const ENVELOPE_NODES: usize = 4_096;

/// Reads a JSON body of at most `bytes`.
pub(crate) fn body<T: DeserializeOwned>(text: &[u8], bytes: usize) -> Result<T, Refused> {
    let bounds =
        Bounds { bytes, depth: Bounds::BODY.depth + ENVELOPE_DEPTH, nodes: 2 * Bounds::BODY.nodes + ENVELOPE_NODES };
    let canonical = json::canonicalize_within(text, &bounds).map_err(|fault| {
        Refused::new(
            Code::InvalidJson,
            format!("the body is no JSON that is taken here: {} at byte {}", fault.reason, fault.offset),
        )
    })?;
    // A list would do for an object whose fields stand in their order, and no name in it could be unknown.
    if !canonical.as_str().starts_with('{') {
        return Err(Refused::new(Code::InvalidRequest, "the body has to be an object"));
    }
    let mut reader = serde_json::Deserializer::from_str(canonical.as_str());
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let place = error.path().to_string();
        // Positions are those of the canonical text, which the caller never saw.
        let message = error.inner().to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(said, _)| said);
        fault("field", &place, message)
    })
}

/// Reads a query string.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Refused> {
    match Query::<T>::try_from_uri(uri) {
        Ok(Query(query)) => Ok(query),
        Err(rejection) => {
            let said = rejection.body_text();
            let said = said.strip_prefix("Failed to deserialize query string: ").unwrap_or(&said);
            let (place, message) = said.split_once(": ").unwrap_or((".", said));
            Err(fault("query parameter", place, message))
        }
    }
}

/// Says what serde found, in our words.
fn fault(what: &str, place: &str, message: &str) -> Refused {
    let Some(unknown) = message.strip_prefix("unknown field ") else {
        let whole = place == "." || place == "?";
        let detail = if whole { message.to_owned() } else { format!("{what} `{place}`: {message}") };
        let mut problem = problem(Code::InvalidRequest, detail);
        let key = (!whole).then(|| place.to_owned());
        problem.errors.push(Fault { message: message.to_owned(), key, ..Fault::default() });
        return Refused(problem);
    };
    let mut names = unknown.split('`').skip(1).step_by(2);
    let name = names.next().unwrap_or_default();
    let known: Vec<&str> = names.collect();
    let near = nearest(name, known.iter().copied());
    let mut problem = problem(Code::UnknownField, format!("there is no {what} `{name}` here"));
    problem.hint = Some(match (near, known.as_slice()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => format!("this takes no {what}s"),
        (None, known) => format!("known: {}", known.join(", ")),
    });
    problem.errors.push(Fault {
        code: Some(Code::UnknownField.as_str().to_owned()),
        message: problem.detail.clone(),
        key: Some(name.to_owned()),
        suggestion: near.map(str::to_owned),
        ..Fault::default()
    });
    Refused(problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::StartRun;
    use api::approval::BatchRequest;
    use api::run::RunQuery;

    fn refused(text: &str) -> Box<api::Problem> {
        body::<StartRun>(text.as_bytes(), 1 << 20).unwrap_err().0
    }

    fn refused_query(query: &str) -> Box<api::Problem> {
        super::query::<RunQuery>(&format!("/v1/runs?{query}").parse().unwrap()).unwrap_err().0
    }

    #[test]
    fn a_body_is_read_strictly_and_its_numbers_stay_as_written() {
        let run: StartRun =
            body(br#"{ "workflow": "a", "input": {"b": 1.0, "a": 12345678901234567890} }"#, 1 << 20).unwrap();
        assert_eq!(run.input.unwrap().as_str(), r#"{"a":12345678901234567890,"b":1.0}"#); // I-40
        let twice = refused(r#"{"workflow":"a","input":{"x":1,"x":2}}"#);
        assert_eq!((twice.status, twice.code.as_str()), (400, "invalid_json")); // C-24
        assert!(twice.detail.contains("byte 31"), "{}", twice.detail);
        assert_eq!(refused("{").code, "invalid_json");
        assert_eq!(refused(r#"{"workflow":"a"} x"#).code, "invalid_json");
    }

    #[test]
    fn an_unknown_field_is_named_with_the_nearest_known_one() {
        let problem = refused(r#"{"workflow":"a","inputs":{}}"#);
        assert_eq!((problem.status, problem.code.as_str()), (400, "unknown_field")); // I-37
        assert_eq!(problem.hint.as_deref(), Some("did you mean `input`?")); // I-37
        assert_eq!(problem.errors[0].suggestion.as_deref(), Some("input")); // I-37
        let problem = refused_query("limits=3");
        assert_eq!((problem.code.as_str(), problem.hint.as_deref()), ("unknown_field", Some("did you mean `limit`?"))); // I-37
        let problem = refused_query("zzzzzz=3");
        assert!(problem.hint.as_deref().unwrap().starts_with("known: status, workflow"), "{problem:?}");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_named_by_its_field() {
        let problem = refused(r#"{"workflow":"a","priority":"high"}"#);
        assert_eq!((problem.status, problem.code.as_str()), (400, "invalid_request"));
        assert!(problem.detail.contains("`priority`") && !problem.detail.contains("line"), "{}", problem.detail);
        assert_eq!(problem.errors[0].key.as_deref(), Some("priority"));
        assert!(refused("{}").detail.contains("workflow"));
        for list in [r#"["a",{"id":"o-7"}]"#, "[]", "null", "7"] {
            assert_eq!((refused(list).status, refused(list).code.as_str()), (400, "invalid_request"), "{list}"); // I-37
        }
        let batch = |items: &str| body::<BatchRequest>(format!(r#"{{"items":[{items}]}}"#).as_bytes(), 1 << 20);
        let approval = "apr_01m8nwmc7ce009jh69rck9w39q";
        assert!(batch(&format!(r#"{{"approval":"{approval}","decision":"reject","answer":1.0}}"#)).is_ok());
        let listed = batch(&format!(r#"["{approval}","reject"]"#)).unwrap_err().0;
        assert_eq!((listed.status, listed.code.as_str()), (400, "invalid_request")); // I-37
        let unknown = batch(r#"{"approvals":"x"}"#).unwrap_err().0;
        assert_eq!(
            (unknown.code.as_str(), unknown.hint.as_deref()),
            ("unknown_field", Some("did you mean `approval`?"))
        ); // I-37
        let problem = refused_query("limit=many");
        assert_eq!((problem.code.as_str(), problem.errors[0].key.as_deref()), ("invalid_request", Some("limit")));
    }
}
