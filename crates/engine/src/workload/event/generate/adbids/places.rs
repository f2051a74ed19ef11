//! Origins of bids: countries and regions by descending frequency.
//!
//! The study gives the number of countries and regions. The first three countries are US, GB and FR. New
//! York's frequency makes it the fourth region of its country. The other names come from ISO 3166.

/// 118 countries.
pub const COUNTRIES: [&str; 118] = [
    "US", "GB", "FR", "DE", "CA", "AU", "IT", "ES", "NL", "BR", "MX", "IN", "JP", "SE", "CH", "BE", "AT", "PL", "DK",
    "NO", "FI", "IE", "PT", "GR", "CZ", "HU", "RO", "BG", "HR", "SI", "SK", "RS", "BA", "ME", "MK", "AL", "EE", "LV",
    "LT", "UA", "BY", "MD", "RU", "TR", "IL", "EG", "MA", "TN", "DZ", "ZA", "NG", "KE", "GH", "ET", "TZ", "UG", "SN",
    "CI", "CM", "AO", "CN", "KR", "TW", "HK", "SG", "MY", "TH", "VN", "PH", "ID", "NZ", "PK", "BD", "LK", "NP", "KZ",
    "UZ", "GE", "AM", "AZ", "SA", "AE", "QA", "KW", "BH", "OM", "JO", "LB", "IQ", "IR", "AR", "CL", "CO", "PE", "VE",
    "EC", "BO", "PY", "UY", "CR", "PA", "GT", "HN", "SV", "NI", "DO", "CU", "JM", "TT", "PR", "IS", "LU", "MT", "CY",
    "MC", "LI", "AD", "SM",
];

/// By population.
const STATES: [&str; 50] = [
    "CA", "TX", "FL", "NY", "PA", "IL", "OH", "GA", "NC", "MI", "NJ", "VA", "WA", "AZ", "MA", "TN", "IN", "MO", "MD",
    "WI", "CO", "MN", "SC", "AL", "LA", "KY", "OR", "OK", "CT", "UT", "IA", "NV", "AR", "MS", "KS", "NM", "NE", "WV",
    "ID", "HI", "NH", "ME", "MT", "RI", "DE", "SD", "ND", "AK", "VT", "WY",
];

const COUNTIES: [&str; 26] = [
    "LND", "KEN", "ESS", "HAM", "LAN", "SRY", "HRT", "NFK", "STS", "WSX", "NTT", "DBY", "DEV", "LIN", "SFK", "GLS",
    "LEC", "NYK", "CAM", "WOR", "NTH", "OXF", "ESX", "WAR", "SOM", "CON",
];

const REGIONS: [&str; 18] = [
    "IDF", "ARA", "HDF", "NAQ", "OCC", "GES", "PAC", "PDL", "BRE", "NOR", "BFC", "CVL", "COR", "RE", "GP", "MQ", "GF",
    "YT",
];

/// Returns the regions of a country, given by its index in [`COUNTRIES`]; empty for most.
pub fn regions(country: usize) -> &'static [&'static str] {
    match country {
        0 => &STATES,
        1 => &COUNTIES,
        2 => &REGIONS,
        _ => &[],
    }
}
