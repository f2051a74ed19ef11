//! Maps operations with pages.

use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::template::Template;
use serde_json::{Map, Value, json};

use super::{MappedSteps, Mapping, SearchStep};
use crate::form::Form;
use crate::http1::request::{Body, RequestHead};
use crate::search::answer::Judge;
use crate::search::paging::{Continuation, Paging};
use loadframe_engine::workload::json_pointer::Pointer;

/// Keys of the paging itself.
const OURS: [&str; 5] = ["size", "from", "search_after", "pit", "scroll"];

/// Default lifetime of a scroll or a point in time after each page.
const KEPT: &str = "1m";

impl Mapping<'_> {
    /// Maps a scroll. The first page opens it; the driver clears it at the end. Refuses unknown keys and wrong types,
    /// and a body with keys that the paging sets.
    pub(super) fn scroll(&self, argument: &Value) -> Result<MappedSteps, PlanError> {
        let form = Form::new(argument, &["collection", "body", "size", "pages", "keep_alive"])?;
        let (size, kept) = (form.count("size")?, kept(&form)?);
        let whole = form.get("body").filter(|body| body.is_string());
        let search = match whole {
            Some(_) => form.mapping_or_hole("body")?.clone(),
            None => Value::Object(self.searched(&form)?),
        };
        let line = self.line("POST", &form)?.segment("_search")?.parameter("scroll", &kept.into())?;
        let first = line.parameter("size", &size.into())?.finish(self.json(&search)?);
        let next = format!("{{\"scroll\":{},\"scroll_id\":", Value::from(kept));
        let line = |method| RequestHead::new(method, self.variables()).path("/_search/scroll");
        let next = SearchStep::new(line("POST")?.finish(around(&next, "}")), Judge::Search);
        let close =
            SearchStep::new(line("DELETE")?.finish(around("{\"scroll_id\":", "}")), Judge::Status { documents: 0 });
        let continuation = Continuation::Scroll { size };
        let paging = Paging { open: None, next: Some(next), close: Some(close), continuation, pages: pages(&form)? };
        Ok(MappedSteps::paged(SearchStep::new(first, Judge::Search), paging))
    }

    /// Maps searches that each continue after the last hit.
    /// By default, they read a point in time, which the driver opens and closes. Refuses a body without `sort`, and a
    /// store without points in time unless none is wanted.
    pub(super) fn search_after(&self, argument: &Value) -> Result<MappedSteps, PlanError> {
        let known = ["collection", "body", "size", "pages", "point_in_time", "keep_alive"];
        let form = Form::new(argument, &known)?;
        let (size, kept) = (form.count("size")?, kept(&form)?);
        let mut search = self.searched(&form)?;
        if !search.contains_key("sort") {
            return Err(PlanError::new("\"body\" wants a \"sort\", by which a page follows the last"));
        }
        search.insert("size".to_owned(), size.into());
        let body = Body::Around(self.members(&Value::Object(search))?, literal("}"));
        if form.switch("point_in_time")? == Some(false) {
            let page = self.line("POST", &form)?.segment("_search")?.finish(body);
            let continuation = Continuation::SearchAfter { size, view: None };
            let paging = Paging { open: None, next: None, close: None, continuation, pages: pages(&form)? };
            return Ok(MappedSteps::paged(SearchStep::new(page, Judge::Search), paging));
        }
        let point = self.dialect.point_in_time()?;
        let opening = point.open.iter().try_fold(self.line("POST", &form)?, |line, segment| line.segment(segment))?;
        let opening = opening.parameter("keep_alive", &kept.into())?.finish(Body::None);
        let open =
            (SearchStep::new(opening, Judge::Status { documents: 0 }), Pointer::parse(&format!("/{}", point.id))?);
        let page = RequestHead::new("POST", self.variables()).path("/_search")?.finish(body);
        let (before, behind) = if point.close_list { ("[", "]}") } else { ("", "}") };
        let closing = around(&format!("{{\"{}\":{before}", point.close_key), behind);
        let close = RequestHead::new("DELETE", self.variables()).path(point.close)?.finish(closing);
        let view = Some((format!(",\"pit\":{{\"keep_alive\":{},\"id\":", Value::from(kept)), "}"));
        let paging = Paging {
            open: Some(open),
            next: None,
            close: Some(SearchStep::new(close, Judge::Status { documents: 0 })),
            continuation: Continuation::SearchAfter { size, view },
            pages: pages(&form)?,
        };
        Ok(MappedSteps::paged(SearchStep::new(page, Judge::Search), paging))
    }

    /// Maps composite aggregations over `sources`. Each page continues after the last bucket of the page before it.
    /// Refuses unknown keys and wrong types.
    pub(super) fn composite(&self, argument: &Value) -> Result<MappedSteps, PlanError> {
        let form = Form::new(argument, &["collection", "sources", "aggregations", "query", "size", "pages"])?;
        let sources = form.require("sources")?;
        if !sources.is_array() {
            return Err(PlanError::new(format!("\"sources\" wants a list, not {sources}")));
        }
        let all = json!({"composite": {"size": form.count("size")?, "sources": sources}});
        let mut search = json!({"size": 0, "track_total_hits": false, "aggs": {"all": all}});
        if form.get("aggregations").is_some() {
            search["aggs"]["all"]["aggs"] = form.mapping("aggregations")?.clone();
        }
        if form.get("query").is_some() {
            search["query"] = form.mapping("query")?.clone();
        }
        let search = self.dialect.search(&search);
        let (mut outer, mut all) = (search, Value::Null);
        if let Some(members) = outer.as_object_mut() {
            all = members.remove("aggs").map(|mut aggregations| aggregations["all"].take()).unwrap_or_default();
        }
        // The key of the last bucket becomes the last member of the composite, and the composite the last of the search.
        let mut body = self.members(&outer)?;
        body.push_literal(",\"aggs\":{\"all\":{");
        if let Some(inner) = all.get("aggs") {
            body.push_literal("\"aggs\":");
            body.push_json(inner, self.variables())?;
            body.push_literal(",");
        }
        body.push_literal(format!("\"composite\":{{\"size\":{},\"sources\":", all["composite"]["size"]));
        body.push_json(&all["composite"]["sources"], self.variables())?;
        let body = Body::Around(body, literal("}}}}"));
        let page = self.line("POST", &form)?.segment("_search")?.finish(body);
        let continuation = Continuation::Composite { after: Pointer::parse("/aggregations/all/after_key")? };
        let paging = Paging { open: None, next: None, close: None, continuation, pages: pages(&form)? };
        Ok(MappedSteps::paged(SearchStep::new(page, Judge::Aggregation), paging))
    }

    /// Returns the search in a form's body, converted to this version; empty without a body. Refuses keys that the
    /// paging sets.
    fn searched(&self, form: &Form) -> Result<Map<String, Value>, PlanError> {
        let Some(body) = form.get("body") else { return Ok(Map::new()) };
        form.mapping("body")?;
        if let Some(key) = OURS.iter().find(|key| body.get(**key).is_some()) {
            return Err(PlanError::new(format!(
                "\"{key}\" cannot be in the body here: the form says how pages are read"
            )));
        }
        Ok(self.dialect.search(body).as_object().cloned().unwrap_or_default())
    }

    /// Returns the JSON of a non-empty object without its closing brace, so that members can follow. Refuses unknown
    /// variables.
    fn members(&self, object: &Value) -> Result<Template, PlanError> {
        let mut template = Template::default();
        for (index, (name, value)) in object.as_object().into_iter().flatten().enumerate() {
            template.push_literal(if index == 0 { "{" } else { "," });
            template.push_literal(format!("{}:", Value::from(name.as_str())));
            template.push_json(value, self.variables())?;
        }
        Ok(template)
    }
}

/// Returns a body with the carried bytes between two texts.
fn around(before: &str, after: &str) -> Body {
    Body::Around(literal(before), literal(after))
}

/// Returns a template of fixed text.
fn literal(text: &str) -> Template {
    let mut template = Template::default();
    template.push_literal(text);
    template
}

/// Reads the largest number of pages, above 0; `None` if there is no limit. Refuses other values.
fn pages(form: &Form) -> Result<Option<u64>, PlanError> {
    form.get("pages").map(|_| form.count("pages")).transpose()
}

/// Reads how long the store keeps a scroll or point in time after each page; by default one minute. Refuses other
/// values than a text.
fn kept<'a>(form: &Form<'a>) -> Result<&'a str, PlanError> {
    form.get("keep_alive").map_or(Ok(KEPT), |_| form.text("keep_alive"))
}
