//! Grok: patterns such as `%{NUMBER:bytes:int}` that take fields out of a text.
//!
//! The regular expressions take time linear in the text, whatever the text is.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

use super::patterns::BASE;
use super::{Path, excerpt};
use crate::plan::{FieldType, PlanError};
use crate::util::suggestions::nearest;

/// Maximum size of a compiled pattern, bytes. It bounds the time per character.
const LARGEST: usize = 2 << 20;

/// Maximum length of a pattern whose references are replaced, bytes.
const LONGEST: usize = 64 << 10;

/// Maximum nesting of references.
const DEEPEST: usize = 32;

/// Patterns of a step, in the order in which they are tried.
#[derive(Debug)]
pub struct Grok(Vec<Pattern>);

#[derive(Debug)]
struct Pattern {
    regex: Regex,
    captures: Vec<Capture>,
}

/// A group of the regular expression that becomes a field.
#[derive(Debug)]
struct Capture {
    group: usize,
    field: Path,
    to: Option<FieldType>,
}

/// A text taken out of another, its field, and the type to convert it to.
pub type Taken<'g, 't> = (&'g Path, &'t str, Option<FieldType>);

impl Grok {
    /// Compiles patterns. `custom`: further patterns by name, which replace base patterns. Refuses an unknown, invalid
    /// or too large pattern, and an empty list.
    pub fn new(patterns: &[String], custom: &BTreeMap<String, String>) -> Result<Self, PlanError> {
        if patterns.is_empty() {
            return Err(PlanError::new("grok needs at least one pattern"));
        }
        for (name, pattern) in custom {
            Expansion::new(custom).expand(pattern, 0).map_err(|e| e.within(format!("pattern {name}")))?;
        }
        patterns.iter().map(|pattern| Pattern::new(pattern, custom)).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the fields that the first fitting pattern takes out of a text; `None` if no pattern fits.
    /// Leaves out empty ones. Fails if a field is captured twice.
    pub fn captures<'g, 't>(&'g self, text: &'t str) -> Result<Option<Vec<Taken<'g, 't>>>, String> {
        let fitting = self.0.iter().find_map(|pattern| Some((pattern, pattern.regex.captures(text)?)));
        let Some((pattern, groups)) = fitting else { return Ok(None) };
        let mut taken: Vec<Taken<'g, 't>> = Vec::with_capacity(pattern.captures.len());
        for Capture { group, field, to } in &pattern.captures {
            let Some(value) = groups.get(*group).filter(|value| !value.is_empty()) else { continue };
            if taken.iter().any(|(known, ..)| known.names == field.names) {
                return Err(format!("the pattern captures the field {field} twice in {}", excerpt(text.as_bytes())));
            }
            taken.push((field, value.as_str(), *to));
        }
        Ok(Some(taken))
    }
}

impl Pattern {
    /// Compiles one pattern, with the fields of its groups; refuses an invalid one.
    fn new(pattern: &str, custom: &BTreeMap<String, String>) -> Result<Self, PlanError> {
        let mut expansion = Expansion::new(custom);
        let expanded = expansion.expand(pattern, 0)?;
        let regex = compile(&expanded).map_err(|e| e.within(format!("pattern {pattern:?}")))?;
        let names = regex.capture_names().enumerate().filter_map(|(group, name)| Some((group, name?)));
        let captures = names.map(|(group, name)| {
            let generated = name.strip_prefix(GENERATED).and_then(|number| number.parse::<usize>().ok());
            let generated = generated.and_then(|number| expansion.fields.get(number));
            let (field, to) = generated.cloned().unwrap_or_else(|| (name.to_owned(), None));
            Ok(Capture { group, field: Path::parse(&format!("/{}", field.replace('.', "/")))?, to })
        });
        let captures = captures.collect::<Result<_, PlanError>>()?;
        Ok(Self { regex, captures })
    }
}

/// Compiles a regular expression. Refuses one that is too large or invalid, and explains unsupported syntax.
pub fn compile(expression: &str) -> Result<Regex, PlanError> {
    let built = RegexBuilder::new(expression).size_limit(LARGEST).build();
    built.map_err(|error| {
        let words = match error {
            regex::Error::CompiledTooBig(_) => "the pattern is too large: use smaller repetitions".to_owned(),
            // The last line names the error; those before it draw the place in a long expression.
            error => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
        };
        let remedy = "look-around and backreferences are not supported, because they can take exponential time";
        let unsupported = words.contains("look-around") || words.contains("backreference");
        PlanError::new(if unsupported { remedy.to_owned() } else { words })
    })
}

/// Prefix of the groups that references with a field become.
const GENERATED: &str = "__";

/// Replaces the references in patterns, and collects their fields.
struct Expansion<'a> {
    custom: &'a BTreeMap<String, String>,
    /// Fields of the generated groups, by number.
    fields: Vec<(String, Option<FieldType>)>,
    length: usize,
}

impl<'a> Expansion<'a> {
    /// Creates an expansion without fields. `custom`: further patterns by name, which replace base patterns.
    fn new(custom: &'a BTreeMap<String, String>) -> Self {
        Self { custom, fields: Vec::new(), length: 0 }
    }

    /// Returns a pattern as a regular expression, with its references replaced, and collects their fields. Refuses an
    /// invalid reference, and more than 64 KiB with the references. `depth`: nesting of references.
    fn expand(&mut self, pattern: &str, depth: usize) -> Result<String, PlanError> {
        // Nested references must not fill the memory.
        self.length += pattern.len();
        if self.length > LONGEST {
            return Err(PlanError::new(format!("the pattern is longer than {LONGEST} bytes with its references")));
        }
        let mut out = String::new();
        let mut rest = pattern;
        while let Some(start) = rest.find("%{") {
            out.push_str(&rest[..start]);
            let after = &rest[start + 2..];
            let end = after.find('}');
            let end =
                end.ok_or_else(|| PlanError::new(format!("{} lacks its }}", excerpt(&rest.as_bytes()[start..]))))?;
            out.push_str(&self.reference(&after[..end], depth)?);
            rest = &after[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Returns the regular expression of `NAME`, `NAME:field` or `NAME:field:type`, and stores its field. Refuses
    /// another form, an unknown pattern and an invalid field. `depth`: nesting of references, up to 32.
    fn reference(&mut self, reference: &str, depth: usize) -> Result<String, PlanError> {
        let mut parts = reference.split(':');
        let (name, field, to, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next(), parts.next());
        let to = match (to, more) {
            (None, _) => None,
            (Some("int"), None) => Some(FieldType::Integer),
            (Some("float"), None) => Some(FieldType::Float),
            _ => {
                let words = format!("%{{{reference}}} is not a reference: write %{{NAME}}, %{{NAME:field}}");
                return Err(PlanError::new(format!("{words}, %{{NAME:field:int}} or %{{NAME:field:float}}")));
            }
        };
        let base = || BASE.binary_search_by_key(&name, |(known, _)| known).ok().map(|at| BASE[at].1);
        let definition = self.custom.get(name).map(String::as_str).or_else(base);
        let definition = definition.ok_or_else(|| {
            let known = BASE.iter().map(|(name, _)| *name).chain(self.custom.keys().map(String::as_str));
            let near = nearest(name, known).map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            PlanError::new(format!("unknown pattern {name:?}{near}"))
        })?;
        if depth == DEEPEST {
            return Err(PlanError::new(format!("pattern {name} refers to itself, or is nested deeper than {DEEPEST}")));
        }
        let open = match field {
            None => "(?:".to_owned(),
            Some(field) => {
                let ok = |name: &str| !name.is_empty() && !name.contains(['/', '~', '[', ']']);
                if !field.split('.').all(ok) {
                    return Err(PlanError::new(format!(
                        "{field:?} is not a field: write a name, or a path such as a.b"
                    )));
                }
                self.fields.push((field.to_owned(), to));
                format!("(?P<{GENERATED}{}>", self.fields.len() - 1)
            }
        };
        let inner = self.expand(definition, depth + 1)?;
        Ok(format!("{open}{inner})"))
    }
}
