//! Captures from answers: converts fields of documents to locations in the protocol's answers.

use loadframe_engine::plan::PlanError;
use serde_json::Value;

use loadframe_engine::workload::json_pointer::Pointer;

/// Replaces each `field` of a capture form by a JSON pointer into the answer to an operation of this kind; `None`
/// without a form. Refuses a `field` that is not a name, or of a kind that reads no documents.
pub fn located(form: Option<&Value>, kind: &str) -> Result<Option<Value>, PlanError> {
    let mut form = form.cloned();
    for (name, source) in form.as_mut().and_then(Value::as_object_mut).into_iter().flatten() {
        let Some(field) = source.as_object_mut().and_then(|source| source.remove("field")) else { continue };
        let within = |error: PlanError| error.within(format!("capture {name:?}"));
        let text = field.as_str().filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| within(PlanError::new(format!("\"field\" wants a name, not {field}"))))?;
        let pointer = Pointer::dotted(text).map_err(within)?;
        let document = match kind {
            "read" | "get" => "/_source",
            "search" | "scan" | "knn" => "/hits/hits/0/_source",
            _ => {
                let cause = format!("{kind} reads no documents that have fields: say json, a pointer into its answer");
                return Err(within(PlanError::new(cause)));
            }
        };
        // With a second location, keep the key: the reader of forms then refuses both.
        let place = if source.get("json").is_some() { "field" } else { "json" };
        source[place] = format!("{document}{}", pointer.text()).into();
    }
    Ok(form)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_located_in_the_document_or_the_first_hit() {
        let form = json!({"a": {"field": "b.c", "otherwise": 0}, "d": {"json": "/_version"}});
        let read = located(Some(&form), "read").unwrap().unwrap();
        assert_eq!(read, json!({"a": {"json": "/_source/b/c", "otherwise": 0}, "d": {"json": "/_version"}}));
        let hit = located(Some(&json!({"a": {"field": "b"}})), "search").unwrap().unwrap();
        assert_eq!(hit, json!({"a": {"json": "/hits/hits/0/_source/b"}}));
        assert_eq!(located(None, "search").unwrap(), None);
        let refused = located(Some(&form), "index").unwrap_err().message;
        assert!(refused.starts_with("capture \"a\": index reads no documents"), "{refused}");
    }
}
