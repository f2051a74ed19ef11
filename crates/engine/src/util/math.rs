//! Elementary functions with the same result on every machine.
//!
//! Schedules, insert numbers and drawn values are functions of the seed, and ranks on different machines must
//! agree on them. `f64::ln` and similar functions depend on the platform and may differ in the last bit.
//! `f64::sqrt` is exact.

/// Returns the natural logarithm of x; negative infinity for 0, NaN below 0.
#[inline]
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// Returns the natural logarithm of 1 + x, accurate for small x.
#[inline]
pub fn ln_1p(x: f64) -> f64 {
    libm::log1p(x)
}

/// Returns e to the power of x.
#[inline]
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// Returns e to the power of x, minus 1, accurate for small x.
#[inline]
pub fn exp_m1(x: f64) -> f64 {
    libm::expm1(x)
}

/// Returns x to the power of y.
#[inline]
pub fn powf(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// Returns the sine of x, in radians.
#[inline]
pub fn sin(x: f64) -> f64 {
    libm::sin(x)
}

/// Returns the cosine of x, in radians.
#[inline]
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Collects lines outside tests that call a platform function.
    fn platform_calls(folder: &Path, calls: &mut Vec<String>) {
        const CALLS: [&str; 10] = [
            ".ln()",
            ".ln_1p()",
            ".exp()",
            ".exp_m1()",
            ".powf(",
            ".powi(",
            ".cos()",
            ".sin()",
            ".sin_cos()",
            ".log10()",
        ];
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                platform_calls(&path, calls);
                continue;
            }
            if path.file_stem().is_some_and(|stem| stem == "tests")
                || path.components().any(|part| part.as_os_str() == "tests")
            {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            let lines = code.lines().filter(|line| CALLS.iter().any(|call| line.contains(call)));
            calls.extend(lines.map(|line| format!("{}: {}", path.display(), line.trim())));
        }
    }

    #[test]
    fn the_engine_calls_no_elementary_function_of_the_platform() {
        let mut calls = Vec::new();
        platform_calls(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut calls);
        calls.retain(|line| !line.contains("math.rs"));
        assert!(calls.is_empty(), "use crate::math instead:\n{}", calls.join("\n"));
    }

    #[test]
    fn functions_match_the_standard_library_within_rounding() {
        let close = |a: f64, b: f64| assert!((a - b).abs() <= 2.0 * f64::EPSILON * b.abs(), "{a} is not {b}");
        for x in [1e-9, 0.1, 0.5, 0.999, 1.5, 20.0, 1e6] {
            close(super::ln(x), x.ln());
            close(super::ln_1p(x), x.ln_1p());
            close(super::exp(-x), (-x).exp());
            close(super::exp_m1(-x), (-x).exp_m1());
            close(super::powf(x, -0.7), x.powf(-0.7));
        }
        assert_eq!(super::ln(2.0).to_bits(), std::f64::consts::LN_2.to_bits());
        // The last bit depends on the algorithm: the nearest number is one less.
        assert_eq!(super::exp(1.0).to_bits(), std::f64::consts::E.to_bits() + 1);
        assert_eq!(super::cos(0.0).to_bits(), 1.0f64.to_bits());
    }
}
