//! The description of the API is kept as a file, so that a change of the contract is seen.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use windrow_testkit::kept;

#[test]
fn the_description_is_as_it_is_kept() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    kept::assert_kept(path, &windrow_server::openapi());
}

#[test]
fn every_call_has_a_name_of_its_own_and_every_reference_leads_somewhere() {
    let api: Value = serde_json::from_str(&windrow_server::openapi()).unwrap();
    assert_eq!(api["openapi"], "3.1.0");
    let calls: Vec<&Value> = api["paths"].as_object().unwrap().values().flat_map(values).collect();
    let names: BTreeSet<&str> =
        calls.iter().map(|call| call["operationId"].as_str().unwrap()).collect();
    assert_eq!(names.len(), calls.len());
    for call in calls {
        assert!(call["summary"].is_string() && call["tags"][0].is_string(), "{call}");
    }
    follow(&api, &api);
}

fn values(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(values) => values.iter().collect(),
        _ => Vec::new(),
    }
}

fn follow(api: &Value, at: &Value) {
    if let Some(to) = at["$ref"].as_str() {
        let found = to.strip_prefix('#').and_then(|pointer| api.pointer(pointer));
        assert!(found.is_some(), "{to}");
    }
    values(at).into_iter().for_each(|value| follow(api, value));
}
