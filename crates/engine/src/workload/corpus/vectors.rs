//! Vectors in TEXMEX files (`.fvecs`, `.ivecs`, `.bvecs`). Each row has the number of its components as a
//! little-endian 32-bit integer, then the components: 32-bit floats, 32-bit integers or bytes.
//!
//! Several files form columns: document i has row i of each, and i as `id`.

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;
use serde_json::Value;

use super::document_limits::DocumentLimits;
use crate::plan::PlanError;
use crate::util::digits::push_i64;

/// Number of evenly spaced rows checked when a file is opened.
const LOOKED_AT: u64 = 1000;

/// Columns of vectors.
#[derive(Debug)]
pub struct Vectors {
    columns: Vec<Column>,
    documents: u64,
}

#[derive(Debug)]
struct Column {
    file: String,
    /// JSON before its value: `,"vector":`.
    key: Vec<u8>,
    map: Mmap,
    components: Components,
    dimensions: usize,
    /// Whether each value is the single component of its row instead of a list.
    single: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Components {
    Floats,
    Integers,
    Bytes,
}

impl Components {
    /// Returns the size of one component, bytes.
    fn bytes(self) -> usize {
        match self {
            Self::Floats | Self::Integers => 4,
            Self::Bytes => 1,
        }
    }
}

impl Vectors {
    /// Opens `[{"name": "vector", "file": "base.fvecs", "single": false}, ...]`. Refuses unusable files, a column with
    /// fewer rows than required, and columns that differ in length unless the limits end within the shortest.
    pub fn open(columns: &Value, limits: DocumentLimits) -> Result<Self, PlanError> {
        let wrong = || PlanError::new("\"columns\" wants a list of names with their files");
        let columns: Vec<Column> =
            columns.as_array().ok_or_else(wrong)?.iter().map(Column::open).collect::<Result<_, _>>()?;
        let shortest = columns.iter().min_by_key(|column| column.rows()).ok_or_else(wrong)?;
        let (least, most) = (shortest.rows(), columns.iter().map(Column::rows).max().unwrap_or_default());
        limits.check(least, format_args!("{}: the file has", shortest.file))?;
        let documents = limits.most().map_or(most, |limits| limits.min(most));
        if documents > least {
            let file = &shortest.file;
            return Err(PlanError::new(format!("{file}: the file has {least} rows, and another column has {most}")));
        }
        Ok(Self { columns, documents })
    }

    /// Returns the number of documents.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Appends document `number` as one line of JSON, without the line end. Panics beyond the last document.
    pub fn append(&self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"id\":");
        push_i64(out, number as i64);
        for column in &self.columns {
            out.extend_from_slice(&column.key);
            column.append(number, out);
        }
        out.push(b'}');
    }
}

impl Column {
    /// Opens a column and checks up to 1000 of its rows. Refuses other extensions, and rows of different sizes.
    fn open(form: &Value) -> Result<Self, PlanError> {
        let (Some(name), Some(file)) = (form["name"].as_str(), form["file"].as_str()) else {
            return Err(PlanError::new(format!("a column requires a name and a file; got {form}")));
        };
        let path = Path::new(file);
        let fail = |cause: &dyn std::fmt::Display| PlanError::new(format!("{file}: {cause}"));
        let components = match path.extension().and_then(std::ffi::OsStr::to_str) {
            Some("fvecs") => Components::Floats,
            Some("ivecs") => Components::Integers,
            Some("bvecs") => Components::Bytes,
            _ => return Err(fail(&"vector files must end with .fvecs, .ivecs or .bvecs")),
        };
        let opened = File::open(path).map_err(|error| fail(&error))?;
        // SAFETY: the file is only read. Truncation during the run ends the process, as for any corpus.
        let map = unsafe { Mmap::map(&opened) }.map_err(|error| fail(&error))?;
        let first = dimensions(&map, 0).filter(|dimensions| *dimensions > 0);
        let dimensions_of_all = first.ok_or_else(|| fail(&"its first row lacks the number of components"))?;
        let single = form["single"].as_bool().unwrap_or(false);
        let key = format!(",{}:", Value::from(name)).into_bytes();
        let column = Self { file: file.to_owned(), key, map, components, dimensions: dimensions_of_all, single };
        if !column.map.len().is_multiple_of(column.row()) {
            let row = column.row();
            return Err(fail(&format!(
                "rows of {dimensions_of_all} components take {row} bytes, and the size of the file is not a multiple of that"
            )));
        }
        let looked_at = column.rows().min(LOOKED_AT);
        for i in 0..looked_at {
            let row = (u128::from(i) * u128::from(column.rows() - 1) / u128::from((looked_at - 1).max(1))) as u64;
            let other = dimensions(&column.map, row as usize * column.row());
            if other != Some(dimensions_of_all) {
                let other = other.unwrap_or_default();
                return Err(fail(&format!("row {row} has {other} components, and row 0 has {dimensions_of_all}")));
            }
        }
        Ok(column)
    }

    /// Returns the size of a row, bytes.
    fn row(&self) -> usize {
        4 + self.dimensions * self.components.bytes()
    }

    /// Returns the number of rows.
    fn rows(&self) -> u64 {
        (self.map.len() / self.row()) as u64
    }

    /// Appends row `number` as JSON: a list, or its only component if the column is single. Panics beyond the last
    /// row.
    fn append(&self, number: u64, out: &mut Vec<u8>) {
        let start = number as usize * self.row() + 4;
        let row = &self.map[start..start + self.row() - 4];
        let list = !self.single;
        if list {
            out.push(b'[');
        }
        for (i, component) in row.chunks_exact(self.components.bytes()).enumerate() {
            if i > 0 {
                out.push(b',');
            }
            match (self.components, component.try_into()) {
                (Components::Floats, Ok(bytes)) => {
                    // The shortest digits that parse to the same 32-bit number.
                    let _ = serde_json::to_writer(&mut *out, &f32::from_le_bytes(bytes));
                }
                (Components::Integers, Ok(bytes)) => push_i64(out, i64::from(i32::from_le_bytes(bytes))),
                _ => push_i64(out, i64::from(component[0])),
            }
        }
        if list {
            out.push(b']');
        }
    }
}

/// Returns the number of components of the row that begins at byte `at`; `None` beyond the end or for a negative
/// number.
fn dimensions(bytes: &[u8], at: usize) -> Option<usize> {
    let number = bytes.get(at..at + 4)?.try_into().ok().map(i32::from_le_bytes)?;
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::folder::Folder;
    use super::*;

    /// Returns rows of floats as in a `.fvecs` file.
    fn floats(rows: &[&[f32]]) -> Vec<u8> {
        let row = |row: &&[f32]| {
            let components = row.iter().flat_map(|component| component.to_le_bytes());
            (row.len() as i32).to_le_bytes().into_iter().chain(components).collect::<Vec<u8>>()
        };
        rows.iter().flat_map(row).collect()
    }

    /// Returns rows of integers as in an `.ivecs` file.
    fn integers(rows: &[&[i32]]) -> Vec<u8> {
        let row = |row: &&[i32]| {
            let components = row.iter().flat_map(|component| component.to_le_bytes());
            (row.len() as i32).to_le_bytes().into_iter().chain(components).collect::<Vec<u8>>()
        };
        rows.iter().flat_map(row).collect()
    }

    /// Returns document `number` as text.
    fn document(vectors: &Vectors, number: u64) -> String {
        let mut out = Vec::new();
        vectors.append(number, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_of_several_files_are_documents() {
        let folder = Folder::new("vectors");
        let base = folder.file("base.fvecs", floats(&[&[0.1, -2.0, 3e-8], &[1.0, 0.5, 16_777_216.0]]));
        let near = folder.file("near.ivecs", integers(&[&[1, 0], &[0, -1]]));
        let key = folder.file("key.ivecs", integers(&[&[70], &[71]]));
        let bytes =
            folder.file("bytes.bvecs", [&2_i32.to_le_bytes()[..], &[0, 255], &2_i32.to_le_bytes(), &[7, 8]].concat());
        let columns = json!([
            {"name": "vector", "file": base.to_str()}, {"name": "near", "file": near.to_str()},
            {"name": "key", "file": key.to_str(), "single": true}, {"name": "b", "file": bytes.to_str()},
        ]);
        let vectors = Vectors::open(&columns, DocumentLimits::default()).unwrap();
        assert_eq!(vectors.documents(), 2);
        let first = r#"{"id":0,"vector":[0.1,-2.0,3e-8],"near":[1,0],"key":70,"b":[0,255]}"#;
        assert_eq!(document(&vectors, 0), first);
        let second = r#"{"id":1,"vector":[1.0,0.5,16777216.0],"near":[0,-1],"key":71,"b":[7,8]}"#;
        assert_eq!(document(&vectors, 1), second);
        let limited = |documents, at_most| {
            Vectors::open(&columns, DocumentLimits { documents, at_most })
                .map(|vectors| vectors.documents())
                .map_err(|e| e.message)
        };
        assert_eq!((limited(Some(1), None), limited(None, Some(9))), (Ok(1), Ok(2)));
        assert_eq!((limited(Some(9), Some(2)), limited(Some(2), Some(9))), (Ok(2), Ok(2)));
        for (documents, at_most) in [(3, None), (3, Some(9)), (9, Some(3))] {
            let error = limited(Some(documents), at_most).unwrap_err();
            assert!(error.contains("the file has 2 documents, and 3 are needed"), "{error}");
        }
    }

    /// A shorter column is refused only if its missing rows are needed.
    #[test]
    fn a_column_that_was_cut_off_is_noticed_as_far_as_it_is_needed() {
        let folder = Folder::new("vectors-cut");
        let (long, short) = (floats(&[&[1.0], &[2.0], &[3.0]]), integers(&[&[1], &[2]]));
        let (long, short) = (folder.file("long.fvecs", long), folder.file("short.ivecs", short));
        let columns = json!([{"name": "a", "file": long.to_str()}, {"name": "b", "file": short.to_str()}]);
        let limited = |at_most| {
            let limits = DocumentLimits { documents: None, at_most: Some(at_most) };
            Vectors::open(&columns, limits).map(|vectors| vectors.documents()).map_err(|error| error.message)
        };
        assert_eq!((limited(1), limited(2)), (Ok(1), Ok(2)));
        assert!(limited(3).unwrap_err().contains("short.ivecs: the file has 2 rows, and another column has 3"));
    }

    #[test]
    fn files_that_are_not_vectors_or_do_not_fit_together_are_refused() {
        let folder = Folder::new("vectors-refused");
        let error = |name: &str, content: Vec<u8>| {
            let file = folder.file(name, content);
            let good = folder.file("good.fvecs", floats(&[&[1.0], &[2.0]]));
            let columns = json!([{"name": "a", "file": good.to_str()}, {"name": "b", "file": file.to_str()}]);
            Vectors::open(&columns, DocumentLimits::default()).unwrap_err().message
        };
        assert!(error("a.fvecs", Vec::new()).contains("its first row lacks the number of components"));
        assert!(error("b.fvecs", floats(&[&[1.0, 2.0], &[3.0]])).contains("not a multiple"));
        assert!(
            error("c.fvecs", floats(&[&[1.0], &[2.0], &[3.0]]))
                .contains("good.fvecs: the file has 2 rows, and another column has 3")
        );
        assert!(error("d.ivecs", integers(&[&[1, 0, 1], &[2, 2], &[2, 2, 2]])[..32].to_vec()).contains("row 1 has 2"));
        assert!(error("e.json", b"{}".to_vec()).contains(".fvecs, .ivecs or .bvecs"));
        assert!(error("f.fvecs", (-1_i32).to_le_bytes().to_vec()).contains("its first row"));
    }
}
