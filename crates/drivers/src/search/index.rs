//! The indices that hold the generations of a collection, as the store describes them.

use serde_json::{Map, Value};

use crate::daily::generations::Generations;

/// Prefix of an index's name after shrinking. With it, a pattern such as `ads-*` finds the index only by its alias,
/// which it gets when the original index is deleted.
pub const SHRUNK: &str = "shrunk-";

/// An index that holds a generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Start of its generation.
    pub begin: i64,
    /// Whether it is a shrunk index, with the generation's name as an alias.
    pub shrunk: bool,
    /// Whether writes are blocked.
    pub blocked: bool,
    /// Number of shards.
    pub shards: u64,
    /// Number of replicas per shard.
    pub replicas: u64,
    /// Its aliases, as the store describes them.
    pub aliases: Map<String, Value>,
}

impl Index {
    /// Returns all its names, including aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [self.name.as_str()].into_iter().chain(self.aliases.keys().map(String::as_str))
    }
}

/// Reads the indices in an answer that lists them, the oldest generation first.
/// A missing setting counts as 1 shard, 0 replicas, not blocked. Leaves out indices that hold no generation, but
/// returns separately the names of shrunk indices that have not replaced their originals yet.
pub fn read(generations: &Generations, answer: &Value) -> (Vec<Index>, Vec<String>) {
    let (mut indices, mut unfinished) = (Vec::new(), Vec::new());
    for (name, described) in answer.as_object().into_iter().flatten() {
        let aliases = described["aliases"].as_object().cloned().unwrap_or_default();
        let named = generations.begin_of(name);
        let Some(begin) = named.or_else(|| aliases.keys().find_map(|alias| generations.begin_of(alias))) else {
            if name.strip_prefix(SHRUNK).is_some_and(|source| generations.begin_of(source).is_some()) {
                unfinished.push(name.clone());
            }
            continue;
        };
        let setting = |name: &str| described["settings"][name].as_str();
        let number = |name: &str| setting(name).and_then(|text| text.parse().ok());
        indices.push(Index {
            name: name.clone(),
            begin,
            shrunk: named.is_none(),
            blocked: setting("index.blocks.write") == Some("true"),
            shards: number("index.number_of_shards").unwrap_or(1),
            replicas: number("index.number_of_replicas").unwrap_or(0),
            aliases,
        });
    }
    indices.sort_by_key(|index| index.begin);
    (indices, unfinished)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::daily::generations::Style;

    #[test]
    fn a_generation_is_an_index_or_its_alias() {
        let settings =
            |blocked: bool| json!({"index.number_of_shards": "3", "index.blocks.write": blocked.to_string()});
        let answer = json!({
            "ads-2017.03.01": {"aliases": {"ad_data": {}}, "settings": settings(true)},
            "shrunk-ads-2017.02.28": {"aliases": {"ad_data": {}, "ads-2017.02.28": {}}, "settings": {}},
            "shrunk-ads-2017.03.01": {"aliases": {}, "settings": {}},
            "ads-old": {"aliases": {}, "settings": {}},
        });
        let generations = Generations::new("ads", Style::Dotted);
        let (indices, unfinished) = read(&generations, &answer);
        let said: Vec<_> = indices.iter().map(|i| (i.name.as_str(), i.shrunk, i.blocked, i.shards)).collect();
        assert_eq!(said, [("shrunk-ads-2017.02.28", true, false, 1), ("ads-2017.03.01", false, true, 3)]);
        assert_eq!(unfinished, ["shrunk-ads-2017.03.01"]);
    }
}
