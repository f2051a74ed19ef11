//! Metadata of MRI scans, like the headers of DICOM, ISMRMRD and BIDS: 63 fields, about 1.6 kB.
//!
//! Fields and ranges follow the synthetic corpus published by the MPI benchmarker's group (`mrirally`). Names
//! are synthetic. Related fields are consistent, unlike in that corpus: a vendor has its own models, an
//! institution its own address, and the age is the time from birth to study.

use super::Generate;
use super::words::push_name;
use crate::util::calendar;
use crate::util::digits::{push_f64, push_u64};
use crate::util::draw::{Draw, hash_name, mix};
use crate::util::math;

const VENDORS: [(&str, [&str; 2]); 6] = [
    ("GE", ["SIGNA", "Discovery"]),
    ("Siemens", ["MAGNETOM", "Biograph"]),
    ("Philips", ["Achieva", "Ingenia"]),
    ("Canon", ["Vantage", "Galan"]),
    ("Hitachi", ["Oasis", "Echelon"]),
    ("Bruker", ["BioSpec", "PharmaScan"]),
];
const FORMATS: [&str; 5] = ["h5", "dat", "nii", "nii.gz", "dicom"];
const STRENGTHS: [f64; 3] = [1.5, 3.0, 7.0];
const CHANNELS: [u64; 5] = [8, 12, 16, 32, 64];
const TRAJECTORIES: [&str; 3] = ["Cartesian", "Radial", "Spiral"];
const SEQUENCES: [&str; 3] = ["GradientEcho", "SpinEcho", "InversionRecovery"];
const FACTORS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
const SIZES: [u64; 4] = [64, 128, 256, 512];
const PARTS: [&str; 3] = ["Head", "Heart", "Knee"];
/// Milliseconds.
const REPETITIONS: [u64; 16] = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200, 300, 400, 500, 600];
/// Tenths of a millimetre.
const THICKNESSES: [u64; 9] = [8, 10, 12, 15, 20, 30, 40, 50, 60];
/// Fields that are 1 in all documents.
const ONES: [&str; 9] = [
    "KspaceMaps",
    "KspaceTE",
    "KspaceCoeff",
    "KspaceCoeff2",
    "KspaceIter",
    "KspaceCshift",
    "KspaceTime",
    "KspaceTime2",
    "KspaceLevel",
];
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789  ";
/// Numbers of institutions, patients and family names. Some have many more documents than others.
const INSTITUTIONS: u64 = 50;
const PATIENTS: f64 = 200_000.0;
const NAMES: f64 = 5_000.0;
/// 1900-01-01 and 2000-01-01, and 2010-01-01 and 2020-01-01: days since 1970.
const BORN: (i64, i64) = (-25_567, 10_957);
const STUDIED: (i64, i64) = (14_610, 18_262);

/// Generator of scans.
#[derive(Debug)]
pub struct MriScan {
    seed: u64,
    stream: u64,
}

impl MriScan {
    /// Creates a generator; `seed` determines its documents.
    pub fn new(seed: u64) -> Self {
        Self { seed, stream: hash_name("mri_scan") }
    }
}

/// A document being written, and its draws.
struct Scan<'a> {
    draw: Draw,
    out: &'a mut Vec<u8>,
}

impl Scan<'_> {
    /// Writes the name of the next member, with the comma before it and the colon.
    fn key(&mut self, key: &str) {
        let before = if self.out.last() == Some(&b'{') { "\"" } else { ",\"" };
        for part in [before, key, "\":"] {
            self.out.extend_from_slice(part.as_bytes());
        }
    }

    /// Writes a string member, with the content that `write` appends.
    fn text(&mut self, key: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.key(key);
        self.out.push(b'"');
        write(self.out);
        self.out.push(b'"');
    }

    /// Writes a string member.
    fn word(&mut self, key: &str, word: &str) {
        self.text(key, |out| out.extend_from_slice(word.as_bytes()));
    }

    /// Writes an integer member.
    fn whole(&mut self, key: &str, value: u64) {
        self.key(key);
        push_u64(self.out, value);
    }

    /// Writes a number member, rounded to four decimals.
    fn number(&mut self, key: &str, value: f64) {
        self.key(key);
        push_f64(self.out, (value * 1e4).round() / 1e4);
    }

    /// Writes a string member of `least` to `most` random letters, digits and blanks. `salt` selects the draws.
    fn letters(&mut self, key: &str, salt: u64, least: u64, most: u64) {
        let (draw, count) = (self.draw, least + self.below(salt, most - least + 1));
        self.text(key, |out| {
            // Ten letters of six bits from each draw.
            for ten in 0..count.div_ceil(10) {
                let bits = draw.bits(1000 + salt * 100 + ten);
                let left = (count - ten * 10).min(10);
                out.extend((0..left).map(|letter| LETTERS[(bits >> (6 * letter) & 63) as usize]));
            }
        });
    }

    /// Draws a uniform integer below `most`. `salt` selects the draw.
    fn below(&self, salt: u64, most: u64) -> u64 {
        ((u128::from(self.draw.bits(salt)) * u128::from(most)) >> 64) as u64
    }

    /// Draws one of the entries of a list, which must not be empty. `salt` selects the draw.
    fn one<T: Copy>(&self, salt: u64, of: &[T]) -> T {
        of[self.below(salt, of.len() as u64) as usize]
    }

    /// Draws a rank from 1 to `most` with a uniform logarithm, so that low ranks are frequent. `salt` selects the
    /// draw.
    fn rank(&self, salt: u64, most: f64) -> u64 {
        math::exp(self.draw.unit(salt) * math::ln(most)) as u64
    }

    /// Draws a field of view, m: around 25 cm for a head and 40 cm for a chest, approximately normal. `salt` and the
    /// next four select the draws.
    fn view(&self, salt: u64) -> f64 {
        let middle = if self.draw.unit(salt) < 0.5 { 0.25 } else { 0.40 };
        let sum: f64 = (1..=4).map(|other| self.draw.unit(salt + other)).sum();
        middle + 0.05 * (sum - 2.0) * 3f64.sqrt()
    }

    /// Draws a number of phase encodings, often a power of two. `salt` selects the draw.
    fn encodings(&self, salt: u64) -> u64 {
        let any = self.below(salt, 24);
        if any < 4 { SIZES[any as usize] } else { 13 + 25 * (any - 4) }
    }
}

impl Generate for MriScan {
    /// Appends scan `number`, a JSON object with 63 fields.
    fn append(&self, number: u64, out: &mut Vec<u8>) {
        let draw = Draw::new(self.seed, self.stream, number);
        out.push(b'{');
        let mut scan = Scan { draw, out };
        scan.letters("ismrmrdHeader", 1, 8, 100);
        scan.letters("cflHeader", 2, 8, 100);
        let format = scan.one(3, &FORMATS);
        scan.word("DataFormat", format);
        scan.letters("FrameOfReferenceUID", 4, 36, 36);
        let measurement = 10_000_000_000 + scan.below(5, 90_000_000_000);
        scan.text("MeasurementID", |out| push_u64(out, measurement));
        let study = 10_000 + scan.below(6, 90_000);
        scan.text("StudyID", |out| push_u64(out, study));
        scan.letters("StudyTimeText", 7, 8, 20);
        let (vendor, models) = scan.one(8, &VENDORS);
        scan.word("SystemVendor", vendor);
        let model = scan.one(9, &models);
        scan.word("SystemModel", model);
        let protocol = 1 + scan.below(10, 3);
        scan.text("ProtocolName", |out| {
            out.extend_from_slice(vendor.as_bytes());
            push_u64(out, protocol);
        });
        let strength = scan.one(11, &STRENGTHS);
        scan.number("SystemFieldStrength", strength);
        let channels = scan.one(12, &CHANNELS);
        scan.whole("NumberReceiverChannels", channels);
        let institution = mix(1 + scan.below(13, INSTITUTIONS));
        scan.text("InstitutionName", |out| {
            out.extend_from_slice(b"University Hospital ");
            push_name(out, institution);
        });
        scan.text("InstitutionAddress", |out| {
            push_name(out, mix(institution));
            out.extend_from_slice(b"strasse ");
            push_u64(out, 1 + institution % 200);
            out.extend_from_slice(b", ");
            push_u64(out, 10_000 + institution % 90_000);
            out.push(b' ');
            push_name(out, institution);
            out.extend_from_slice(b", Germany");
        });
        let trajectory = scan.one(14, &TRAJECTORIES);
        scan.word("Trajectory", trajectory);
        let flat = scan.draw.unit(15) < 0.5;
        scan.word("AcquisitionType", if flat { "2D" } else { "3D" });
        let factor = scan.one(16, &FACTORS);
        scan.number("AccelerationFactor", factor);
        let repetition = scan.one(17, &REPETITIONS);
        scan.number("TR", repetition as f64 / 1e3);
        let inversion = 2 + scan.below(18, 5);
        scan.number("TI", inversion as f64 / 10.0);
        let echo = 1 + scan.below(19, 9);
        scan.number("TE", echo as f64 / 1e3);
        let angle = 3.0 + 87.0 * scan.draw.unit(20);
        scan.number("FlipAngle", angle);
        let sequence = scan.one(21, &SEQUENCES);
        scan.word("SequenceType", sequence);
        let spacing = 1 + scan.below(22, 9);
        scan.number("EchoSpacing", spacing as f64 / 1e3);
        let (size, readout) = (scan.one(23, &SIZES), scan.one(24, &SIZES));
        scan.whole("KspaceX", size);
        let views = [scan.view(200), scan.view(210), if flat { 0.0 } else { scan.view(220) }];
        for (key, view) in ["KspaceFOVX", "KspaceFOVY", "KspaceFOVZ"].into_iter().zip(views) {
            scan.number(key, view);
        }
        scan.whole("KspaceReadout", readout);
        let first = scan.encodings(25);
        scan.whole("KspacePhaseEnc1", first);
        let second = if scan.draw.unit(26) < 0.5 { 1 } else { scan.encodings(27) };
        scan.whole("KspacePhaseEnc2", second);
        scan.whole("KspaceCoils", channels);
        for key in ONES {
            scan.whole(key, 1);
        }
        let slices = if scan.draw.unit(28) < 0.5 { 1 } else { 80 + 5 * scan.below(29, 24) };
        scan.whole("KspaceSlice", slices);
        scan.whole("KspaceAvg", 1);
        for (key, view) in ["ImageFOVX", "ImageFOVY", "ImageFOVZ"].into_iter().zip(views) {
            scan.number(key, view);
        }
        let width = scan.one(30, &[readout, readout / 2, first, size]);
        scan.whole("ImageMatrixX", width);
        scan.number("BaseResolution", views[0] / width as f64);
        scan.whole("ImageMatrixY", second);
        let depth = 1 + scan.below(31, 100);
        scan.whole("ImageMatrixZ", depth);
        let thickness = scan.one(32, &THICKNESSES);
        scan.number("SliceThickness", thickness as f64 / 1e4);
        let part = scan.one(33, &PARTS);
        scan.word("BodyPart", part);
        // All data of a patient depend on the patient's number.
        let patient = scan.rank(34, PATIENTS);
        let who = Draw { k: patient, ..Draw::new(self.seed, self.stream ^ 1, patient) };
        scan.text("PatientID", |out| push_u64(out, 1_000_000_000 + patient));
        let name = math::exp(who.unit(1) * math::ln(NAMES)) as u64;
        scan.text("PatientName", |out| push_name(out, mix(name)));
        let born = BORN.0 + (who.unit(2) * (BORN.1 - BORN.0) as f64) as i64;
        scan.text("PatientBirthday", |out| push_date(out, born));
        scan.number("PatientWeight", 50.0 + 100.0 * who.unit(3));
        scan.word("PatientSex", if who.unit(4) < 0.5 { "M" } else { "F" });
        let studied = STUDIED.0 + (scan.draw.unit(35) * (STUDIED.1 - STUDIED.0) as f64) as i64;
        let age = ((studied - born) as f64 / 365.25) as u64;
        scan.whole("PatientAge", age);
        scan.text("StudyDate", |out| push_date(out, studied));
        scan.number("Lamor_frequency", strength * 42.0);
        let tissue = scan.below(36, 100_001);
        scan.text("TNumber", |out| {
            out.push(b'T');
            push_u64(out, tissue);
        });
        scan.key("Tags");
        // Ten tags, each with a probability of one half.
        let tags = scan.draw.bits(37);
        scan.out.push(b'[');
        for tag in (1..=10).filter(|tag| tags >> tag & 1 == 1) {
            scan.out.extend_from_slice(if scan.out.last() == Some(&b'[') { b"\"Tag" } else { b",\"Tag" });
            push_u64(scan.out, tag);
            scan.out.push(b'"');
        }
        scan.out.push(b']');
        scan.text("Filename", |out| {
            push_date(out, studied);
            out.push(b'_');
            push_u64(out, measurement);
            out.push(b'.');
            out.extend_from_slice(format.as_bytes());
        });
        let older: f64 = (38..42).map(|salt| scan.draw.unit(salt)).sum::<f64>() - 2.0;
        let brain = (age as f64 + older * 5.0 * 3f64.sqrt()).round().max(0.0);
        scan.whole("BrainAge", brain as u64);
        scan.out.push(b'}');
    }
}

/// Appends a date, given in days since 1970, as `2015-01-31`.
fn push_date(out: &mut Vec<u8>, days: i64) {
    let date = calendar::at(days * calendar::DAY).expect("the constants limit the years").date();
    let (year, month, day) = (date.year() as u64, date.month() as u64, date.day() as u64);
    push_u64(out, year);
    for part in [month, day] {
        out.extend_from_slice(if part < 10 { b"-0" } else { b"-" });
        push_u64(out, part);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use serde_json::Value;

    use super::*;

    /// Returns the length of a scan in bytes, and the scan.
    fn scan(number: u64) -> (usize, Value) {
        let mut out = Vec::new();
        MriScan::new(1).append(number, &mut out);
        (out.len(), serde_json::from_slice(&out).unwrap())
    }

    #[test]
    fn scans_have_the_published_fields_and_size() {
        let (mut bytes, mut keys) = (0, HashSet::new());
        for number in 0..5_000 {
            let (length, scan) = scan(number);
            bytes += length;
            keys.extend(scan.as_object().unwrap().keys().cloned());
            assert_eq!(scan.as_object().unwrap().len(), 63);
        }
        assert_eq!(keys.len(), 63, "all have the same fields");
        let mean = bytes as f64 / 5_000.0;
        assert!((1_450.0..1_750.0).contains(&mean), "{mean} bytes a scan; the published corpus has 1,608");
    }

    #[test]
    fn related_fields_are_consistent() {
        let mut patients = BTreeMap::<String, Value>::new();
        for number in 0..20_000 {
            let (_, scan) = scan(number);
            let text = |key: &str| scan[key].as_str().unwrap().to_owned();
            let year = |key: &str| text(key)[..4].parse::<i64>().unwrap();
            let age = scan["PatientAge"].as_i64().unwrap();
            assert!((0..=1).contains(&(year("StudyDate") - year("PatientBirthday") - age)), "{scan}");
            assert!(text("ProtocolName").starts_with(&text("SystemVendor")));
            assert_eq!(scan["KspaceFOVZ"] == 0.0, scan["AcquisitionType"] == "2D");
            assert_eq!(scan["KspaceCoils"], scan["NumberReceiverChannels"]);
            let one = patients.entry(text("PatientID")).or_insert_with(|| scan.clone());
            for key in ["PatientName", "PatientBirthday", "PatientWeight", "PatientSex"] {
                assert_eq!(one[key], scan[key], "a patient stays who it is");
            }
        }
        assert!((2_000..15_000).contains(&patients.len()), "{} patients", patients.len());
    }
}
