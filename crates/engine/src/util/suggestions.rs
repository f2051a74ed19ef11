//! Suggestions for mistyped words in messages.

use strsim::levenshtein;

/// Returns the word nearest to `wrong` by edit distance; `None` if it is further than a third of the longer word's
/// length (at least 1).
pub fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    words
        .into_iter()
        .map(|word| (levenshtein(wrong, word), word))
        .min()
        .filter(|&(distance, word)| distance <= 1.max(word.chars().count().max(wrong.chars().count()) / 3))
        .map(|(_, word)| word)
}

/// Returns `unknown KIND "wrong"; did you mean "right"?`, or a list of all words if none is near.
pub fn unknown<'a>(kind: &str, wrong: &str, words: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(word) = nearest(wrong, words.clone()) {
        return format!("unknown {kind} \"{wrong}\"; did you mean \"{word}\"?");
    }
    let known: Vec<&str> = words.into_iter().collect();
    if known.is_empty() {
        return format!("unknown {kind} \"{wrong}\"; there are none");
    }
    format!("unknown {kind} \"{wrong}\"; there are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_finds_its_neighbour() {
        let words = ["uniform", "constant", "choice", "sequential"];
        assert_eq!(nearest("unifrom", words), Some("uniform"));
        assert_eq!(nearest("choise", words), Some("choice"));
        assert_eq!(nearest("zipfian", words), None);
    }

    #[test]
    fn a_message_names_the_neighbour_or_lists_all() {
        assert_eq!(unknown("kind", "serch", ["search", "bulk"]), "unknown kind \"serch\"; did you mean \"search\"?");
        assert_eq!(unknown("kind", "xyz", ["search", "bulk"]), "unknown kind \"xyz\"; there are search, bulk");
        assert_eq!(unknown("variable", "lo", []), "unknown variable \"lo\"; there are none");
    }
}
