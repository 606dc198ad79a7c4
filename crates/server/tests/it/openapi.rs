//! The committed document is the one that the code gives, and has every route (interfaces.md, section 2).

use serde_json::Value;
use stasis_server::ROUTES;

/// The committed document.
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

#[test]
fn the_committed_document_is_what_the_code_gives() {
    let now = stasis_server::openapi();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(PATH, &now).expect("written");
    }
    let committed = std::fs::read_to_string(PATH).expect("docs/openapi.json is there");
    assert!(now == committed, "docs/openapi.json is not what the code gives: run this test with UPDATE_EXPECT=1");
}

#[test]
fn every_route_is_in_the_document_and_nothing_else() {
    let document: Value = serde_json::from_str(&stasis_server::openapi()).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    let mut described: Vec<String> = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        described.extend(methods.as_object().unwrap().keys().map(|method| format!("{} {path}", method.to_uppercase())));
    }
    let mut served: Vec<String> = ROUTES.iter().map(|route| format!("{} {}", route.method, route.path)).collect();
    described.sort();
    served.sort();
    assert_eq!(described, served);
}

#[test]
fn every_schema_that_is_named_is_there() {
    let document = stasis_server::openapi();
    let whole: Value = serde_json::from_str(&document).unwrap();
    for reference in document.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(whole["components"]["schemas"][name].is_object(), "{name}");
    }
}
