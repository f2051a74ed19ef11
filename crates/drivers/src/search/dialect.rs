//! API differences between the versions of Elasticsearch and OpenSearch, all in one place.
//!
//! Forms are written for the newest versions. Mapping a form translates the names of older versions, and refuses
//! features that the version lacks. The default is the newest Elasticsearch.

use loadframe_engine::plan::{PlanError, Store};
use serde_json::{Map, Value, json};

/// The oldest supported version: before it, document types have other names.
const LEAST: (u64, u64) = (6, 2);

/// The API of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    product: Product,
    version: (u64, u64),
}

/// The product whose API a store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Product {
    Elasticsearch,
    OpenSearch,
}

/// How to open and close a point in time: a frozen view of an index for paging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointInTime {
    /// Path segments after the collection's name; POST with `keep_alive` opens one.
    pub open: &'static [&'static str],
    /// Location of its id in the answer.
    pub id: &'static str,
    /// Path for DELETE, which closes the ids in the body.
    pub close: &'static str,
    /// The key in the body.
    pub close_key: &'static str,
    /// Whether the body has a list of ids instead of one.
    pub close_list: bool,
}

/// Path segments around a document's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentPath {
    /// Segment before the id.
    pub before: &'static str,
    /// Segment after the id.
    pub behind: Option<&'static str>,
}

impl Dialect {
    /// Returns the dialect of the plan's store; without a store, the newest Elasticsearch.
    /// A distribution other than `opensearch` counts as Elasticsearch. Refuses a version without a major number, and
    /// Elasticsearch before 6.2. A minor version that is not a number counts as 0.
    pub fn new(store: Option<&Store>) -> Result<Self, PlanError> {
        let Some(Store { distribution, version }) = store else {
            return Ok(Self { product: Product::Elasticsearch, version: (u64::MAX, 0) });
        };
        let mut numbers = version.split(['.', '-']).map(str::parse);
        let (Some(Ok(major)), minor) = (numbers.next(), numbers.next().and_then(Result::ok).unwrap_or(0)) else {
            return Err(PlanError::new(format!("the store's version is {version:?}, which is not a version")));
        };
        let product = if distribution == "opensearch" { Product::OpenSearch } else { Product::Elasticsearch };
        let dialect = Self { product, version: (major, minor) };
        if product == Product::Elasticsearch && dialect.version < LEAST {
            return Err(PlanError::new(format!(
                "{distribution} {version} is older than {}.{}, the first that is understood",
                LEAST.0, LEAST.1
            )));
        }
        Ok(dialect)
    }

    /// Returns whether documents have a type, which is part of paths.
    fn typed(&self) -> bool {
        self.product == Product::Elasticsearch && self.version.0 < 7
    }

    /// Returns the path to read, put or delete a document; the same in all versions.
    pub fn document(&self) -> DocumentPath {
        DocumentPath { before: "_doc", behind: None }
    }

    /// Returns the path to create a document that must be new.
    pub fn create(&self) -> DocumentPath {
        self.verb("_create")
    }

    /// Returns the path to update a document.
    pub fn update(&self) -> DocumentPath {
        self.verb("_update")
    }

    /// Returns the path of a verb such as `_update`: behind the id if documents have a type, else before it.
    fn verb(&self, verb: &'static str) -> DocumentPath {
        if self.typed() {
            DocumentPath { before: "_doc", behind: Some(verb) }
        } else {
            DocumentPath { before: verb, behind: None }
        }
    }

    /// Returns the path segments after the collection's name for bulk requests.
    pub fn bulk(&self) -> &'static [&'static str] {
        if self.typed() { &["_doc", "_bulk"] } else { &["_bulk"] }
    }

    /// Returns whether a request can block writes to an index and wait for the pending ones.
    pub fn blocks(&self) -> bool {
        self.product == Product::OpenSearch || self.version >= (7, 9)
    }

    /// Returns the path segments after the collection's name for changing its mapping.
    pub fn mapping(&self) -> &'static [&'static str] {
        if self.typed() { &["_mapping", "_doc"] } else { &["_mapping"] }
    }

    /// Returns the path of SQL queries.
    pub fn sql(&self) -> &'static str {
        match self.product {
            Product::OpenSearch => "/_plugins/_sql",
            Product::Elasticsearch if self.typed() => "/_xpack/sql",
            Product::Elasticsearch => "/_sql",
        }
    }

    /// Returns the path of ES|QL queries. Refuses stores without ES|QL.
    pub fn esql(&self) -> Result<&'static str, PlanError> {
        self.only_elasticsearch("ES|QL", (8, 11)).map(|()| "/_query")
    }

    /// Returns the two path segments after the collection's name for EQL queries. Refuses stores without EQL.
    pub fn eql(&self) -> Result<(&'static str, &'static str), PlanError> {
        self.only_elasticsearch("EQL", (7, 9)).map(|()| ("_eql", "search"))
    }

    /// Refuses OpenSearch, and Elasticsearch before version `least`. `what` names the feature in the error.
    fn only_elasticsearch(&self, what: &str, least: (u64, u64)) -> Result<(), PlanError> {
        if self.product == Product::OpenSearch {
            return Err(PlanError::new(format!("{self} lacks {what}: only Elasticsearch has it")));
        }
        if self.version < least {
            let (major, minor) = least;
            return Err(PlanError::new(format!("{self} lacks {what}: it requires version {major}.{minor}")));
        }
        Ok(())
    }

    /// Returns the body of a search for the `k` nearest neighbours of a vector, with `candidates` considered per shard.
    /// `filter` is a query that the neighbours must match. Refuses Elasticsearch before 8.4, and before 8.13 a search
    /// without `candidates`.
    pub fn knn(
        &self,
        field: &str,
        vector: &Value,
        k: u64,
        candidates: Option<u64>,
        filter: Option<&Value>,
    ) -> Result<Value, PlanError> {
        if self.product == Product::OpenSearch {
            let mut query = json!({"vector": vector, "k": k});
            if let Some(candidates) = candidates {
                query["method_parameters"] = json!({"ef_search": candidates});
            }
            if let Some(filter) = filter {
                query["filter"] = filter.clone();
            }
            return Ok(json!({"size": k, "_source": false, "query": {"knn": {field: query}}}));
        }
        self.only_elasticsearch("search by knn", (8, 4))?;
        let mut knn = json!({"field": field, "query_vector": vector, "k": k});
        match candidates {
            Some(candidates) => knn["num_candidates"] = candidates.into(),
            None if self.version < (8, 13) => {
                return Err(PlanError::new(format!("{self} needs the number of \"candidates\" to look at")));
            }
            None => {}
        }
        if let Some(filter) = filter {
            knn["filter"] = filter.clone();
        }
        Ok(json!({"size": k, "_source": false, "knn": knn}))
    }

    /// Returns the point-in-time API. Refuses versions without it.
    pub fn point_in_time(&self) -> Result<PointInTime, PlanError> {
        let least = match self.product {
            Product::OpenSearch => (2, 4),
            Product::Elasticsearch => (7, 10),
        };
        if self.version < least {
            let (major, minor) = least;
            return Err(PlanError::new(format!("{self} lacks points in time: they require version {major}.{minor}")));
        }
        Ok(match self.product {
            Product::OpenSearch => PointInTime {
                open: &["_search", "point_in_time"],
                id: "pit_id",
                close: "/_search/point_in_time",
                close_key: "pit_id",
                close_list: true,
            },
            Product::Elasticsearch => {
                PointInTime { open: &["_pit"], id: "id", close: "/_pit", close_key: "id", close_list: false }
            }
        })
    }

    /// Returns the path of index templates.
    pub fn templates(&self) -> &'static str {
        if self.composes() { "_index_template" } else { "_template" }
    }

    /// Returns the path and body of a template for collections with names matching `patterns`; `definition` has their
    /// settings, mappings and aliases. If several templates match, the one with the highest priority applies.
    pub fn template(&self, patterns: &Value, priority: Option<u64>, definition: Value) -> (&'static str, Value) {
        let mut body = if self.composes() { json!({ "template": definition }) } else { definition };
        body["index_patterns"] = patterns.clone();
        if let Some(priority) = priority {
            body[if self.composes() { "priority" } else { "order" }] = priority.into();
        }
        (self.templates(), body)
    }

    /// Returns whether index templates are composable, which changed their path and form.
    fn composes(&self) -> bool {
        self.product == Product::OpenSearch || self.version >= (7, 8)
    }

    /// Refuses stores without data streams.
    pub fn data_streams(&self) -> Result<(), PlanError> {
        self.since("data streams", (7, 9))
    }

    /// Refuses composing templates on versions without composable templates.
    pub fn composing(&self) -> Result<(), PlanError> {
        self.since("composed templates", (7, 8))
    }

    /// Refuses a feature, named `what` in the error, on Elasticsearch before this version. All OpenSearch versions have
    /// it.
    fn since(&self, what: &str, (major, minor): (u64, u64)) -> Result<(), PlanError> {
        if self.product == Product::OpenSearch || self.version >= (major, minor) {
            return Ok(());
        }
        Err(PlanError::new(format!("{self} lacks {what}: they require version {major}.{minor}")))
    }

    /// Returns the body of an index, a template or a rollover for this version.
    /// Before Elasticsearch 7, adds the type of the documents to `mappings`.
    pub fn definition(&self, body: &Value) -> Value {
        let mut body = body.clone();
        if self.typed()
            && let Some(mappings) = body.get_mut("mappings")
        {
            let untyped = mappings.take();
            *mappings = json!({ "_doc": untyped });
        }
        body
    }

    /// Returns the body of a search for this version, with older names of its settings where necessary.
    /// Before Elasticsearch 7, a number in `track_total_hits` becomes true.
    pub fn search(&self, body: &Value) -> Value {
        let mut body = body.clone();
        if let Some(search) = body.as_object_mut() {
            if self.typed()
                && let Some(total @ Value::Number(_)) = search.get_mut("track_total_hits")
            {
                // The version counts all hits, without a limit.
                *total = Value::Bool(true);
            }
            self.aggregations(search);
        }
        body
    }

    /// Converts the intervals of all date_histograms inside `parent`, a search or an aggregation, in place.
    fn aggregations(&self, parent: &mut Map<String, Value>) {
        for key in ["aggs", "aggregations"] {
            let Some(named) = parent.get_mut(key).and_then(Value::as_object_mut) else { continue };
            for aggregation in named.values_mut().filter_map(Value::as_object_mut) {
                self.histogram(aggregation);
                let sources = aggregation.get_mut("composite").and_then(|composite| composite.get_mut("sources"));
                for source in sources.and_then(Value::as_array_mut).into_iter().flatten() {
                    let named = source.as_object_mut().into_iter().flat_map(Map::values_mut);
                    named.filter_map(Value::as_object_mut).for_each(|source| self.histogram(source));
                }
                self.aggregations(aggregation);
            }
        }
    }

    /// Converts the interval of a date_histogram in place. Before 7.2 one key covered calendar and fixed intervals, and
    /// the value distinguished them; Elasticsearch 8 accepts only the two newer keys. Leaves searches of
    /// OpenSearch unchanged.
    fn histogram(&self, aggregation: &mut Map<String, Value>) {
        if self.product == Product::OpenSearch {
            return;
        }
        let Some(histogram) = aggregation.get_mut("date_histogram").and_then(Value::as_object_mut) else { return };
        if self.version < (7, 2) {
            if let Some(calendar) = histogram.remove("calendar_interval") {
                histogram.insert("interval".to_owned(), calendar);
            } else if let Some(fixed) = histogram.remove("fixed_interval") {
                histogram.insert("interval".to_owned(), not_calendar(fixed));
            }
        } else if self.version.0 >= 8
            && let Some(interval) = histogram.remove("interval")
        {
            let calendar = interval.as_str().is_some_and(|text| CALENDAR.iter().any(|units| units.contains(&text)));
            let word = if calendar { "calendar_interval" } else { "fixed_interval" };
            histogram.insert(word.to_owned(), interval);
        }
    }
}

/// The calendar units, each with its two names.
const CALENDAR: [[&str; 2]; 8] = [
    ["second", "1s"],
    ["minute", "1m"],
    ["hour", "1h"],
    ["day", "1d"],
    ["week", "1w"],
    ["month", "1M"],
    ["quarter", "1q"],
    ["year", "1y"],
];

/// Returns a fixed interval in a unit that the old key does not read as a calendar interval, such as `60s` for `1m`;
/// others unchanged.
fn not_calendar(interval: Value) -> Value {
    let same = match interval.as_str() {
        Some("1s") => "1000ms",
        Some("1m") => "60s",
        Some("1h") => "60m",
        Some("1d") => "24h",
        _ => return interval,
    };
    same.into()
}

impl std::fmt::Display for Dialect {
    /// Writes product and version, such as `opensearch 3.8`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.product {
            Product::Elasticsearch => "elasticsearch",
            Product::OpenSearch => "opensearch",
        };
        write!(f, "{name} {}.{}", self.version.0, self.version.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the dialect of a version of `distribution`.
    fn dialect(distribution: &str, version: &str) -> Result<Dialect, PlanError> {
        let store = Store { distribution: distribution.to_owned(), version: version.to_owned() };
        Dialect::new(Some(&store))
    }

    /// Returns the dialect of a version of Elasticsearch.
    fn elasticsearch(version: &str) -> Dialect {
        dialect("elasticsearch", version).unwrap()
    }

    #[test]
    fn documents_have_a_type_before_version_7() {
        let (old, new) = (elasticsearch("6.8.23"), elasticsearch("7.0.0"));
        assert_eq!(old.update(), DocumentPath { before: "_doc", behind: Some("_update") });
        assert_eq!(new.update(), DocumentPath { before: "_update", behind: None });
        assert_eq!(old.create(), DocumentPath { before: "_doc", behind: Some("_create") });
        assert_eq!((old.bulk(), new.bulk()), (&["_doc", "_bulk"][..], &["_bulk"][..]));
        assert_eq!(old.document(), new.document());
        let index = json!({"settings": {"a": 1}, "mappings": {"properties": {}}});
        assert_eq!(old.definition(&index), json!({"settings": {"a": 1}, "mappings": {"_doc": {"properties": {}}}}));
        assert_eq!(new.definition(&index), index);
        assert_eq!(dialect("opensearch", "1.0.0").unwrap().bulk(), ["_bulk"]);
    }

    #[test]
    fn the_newest_elasticsearch_is_spoken_where_no_version_is_known() {
        let unknown = Dialect::new(None).unwrap();
        assert_eq!(unknown.bulk(), ["_bulk"]);
        assert_eq!(unknown.point_in_time().unwrap().open, ["_pit"]);
        assert_eq!(unknown.sql(), "/_sql");
    }

    #[test]
    fn an_interval_is_named_as_the_version_names_it() {
        let search = |interval: &str, value: &str| json!({"aggs": {"a": {"terms": {"field": "t"}, "aggs": {"b": {"date_histogram": {interval: value}}}}}});
        let (six, seven, nine) = (elasticsearch("6.8.23"), elasticsearch("7.17.0"), elasticsearch("9.1.0"));
        assert_eq!(six.search(&search("calendar_interval", "day")), search("interval", "day"));
        assert_eq!(six.search(&search("fixed_interval", "1d")), search("interval", "24h"));
        assert_eq!(six.search(&search("fixed_interval", "90m")), search("interval", "90m"));
        assert_eq!(six.search(&search("calendar_interval", "${unit}")), search("interval", "${unit}"));
        assert_eq!(seven.search(&search("interval", "day")), search("interval", "day"));
        assert_eq!(nine.search(&search("interval", "day")), search("calendar_interval", "day"));
        assert_eq!(nine.search(&search("interval", "90m")), search("fixed_interval", "90m"));
        let sources = |interval: &str| json!({"aggregations": {"a": {"composite": {"sources": [{"d": {"date_histogram": {interval: "1d"}}}]}}}});
        assert_eq!(six.search(&sources("calendar_interval")), sources("interval"));
        let plain = json!({"aggs": {"h": {"histogram": {"field": "n", "interval": 5}}}});
        assert_eq!(nine.search(&plain), plain);
    }

    #[test]
    fn counting_has_no_limit_before_version_7() {
        let search = json!({"track_total_hits": 1000});
        assert_eq!(elasticsearch("6.8.23").search(&search), json!({"track_total_hits": true}));
        assert_eq!(elasticsearch("7.0.0").search(&search), search);
    }

    #[test]
    fn a_point_in_time_is_refused_where_there_is_none() {
        let error = elasticsearch("6.8.23").point_in_time().unwrap_err().message;
        assert_eq!(error, "elasticsearch 6.8 lacks points in time: they require version 7.10");
        assert_eq!(dialect("opensearch", "2.19.4").unwrap().point_in_time().unwrap().id, "pit_id");
    }

    #[test]
    fn data_streams_are_refused_where_there_are_none() {
        assert!(dialect("opensearch", "1.0.0").unwrap().data_streams().is_ok());
        assert!(elasticsearch("7.9.0").data_streams().is_ok());
        let error = elasticsearch("6.8.23").data_streams().unwrap_err().message;
        assert_eq!(error, "elasticsearch 6.8 lacks data streams: they require version 7.9");
        assert!(elasticsearch("7.7.0").composing().unwrap_err().message.contains("7.8"));
    }

    #[test]
    fn languages_of_queries_are_refused_where_there_are_none() {
        assert_eq!(elasticsearch("8.11.0").esql().unwrap(), "/_query");
        assert_eq!(elasticsearch("7.9.0").eql().unwrap(), ("_eql", "search"));
        let error = elasticsearch("7.17.0").esql().unwrap_err().message;
        assert_eq!(error, "elasticsearch 7.17 lacks ES|QL: it requires version 8.11");
        let opensearch = dialect("opensearch", "3.8.0").unwrap();
        assert_eq!(opensearch.eql().unwrap_err().message, "opensearch 3.8 lacks EQL: only Elasticsearch has it");
    }

    #[test]
    fn neighbours_are_asked_for_as_each_product_wants_it() {
        let (vector, filter) = (json!("${v}"), json!({"term": {"a": 1}}));
        assert_eq!(
            elasticsearch("8.13.0").knn("v", &vector, 10, None, None).unwrap(),
            json!({"size": 10, "_source": false, "knn": {"field": "v", "query_vector": "${v}", "k": 10}})
        );
        let knn = json!({"field": "v", "query_vector": "${v}", "k": 10, "num_candidates": 50, "filter": filter});
        assert_eq!(
            elasticsearch("8.4.0").knn("v", &vector, 10, Some(50), Some(&filter)).unwrap(),
            json!({"size": 10, "_source": false, "knn": knn})
        );
        let query = json!({"vector": "${v}", "k": 10, "method_parameters": {"ef_search": 50}, "filter": filter});
        assert_eq!(
            dialect("opensearch", "2.19.0").unwrap().knn("v", &vector, 10, Some(50), Some(&filter)).unwrap(),
            json!({"size": 10, "_source": false, "query": {"knn": {"v": query}}})
        );
        assert!(elasticsearch("8.12.0").knn("v", &vector, 10, None, None).unwrap_err().message.contains("candidates"));
        assert!(elasticsearch("7.17.0").knn("v", &vector, 10, None, None).unwrap_err().message.contains("8.4"));
    }

    #[test]
    fn a_version_that_is_not_understood_is_refused() {
        assert!(dialect("elasticsearch", "5.6.0").unwrap_err().message.contains("older than 6.2"));
        assert!(dialect("elasticsearch", "new").unwrap_err().message.contains("not a version"));
        assert_eq!(elasticsearch("9.0.0-beta1").version, (9, 0));
    }
}
