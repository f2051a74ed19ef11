//! AWS Signature Version 4. It covers the method, path, query, headers and body of a request and expires after minutes.

use std::str;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use loadframe_engine::plan::access::AwsKeys;

/// Names the service and region of a signature.
#[derive(Clone, Debug)]
pub struct Scope {
    service: String,
    region: String,
    /// OpenSearch Serverless requires the digest of the body in a header.
    digest: PayloadChecksumKind,
}

/// A key in the form of the signing library, which shares it between requests.
pub type Identity = aws_smithy_runtime_api::client::identity::Identity;

/// Returns the key in the form of the signing library.
pub fn identity(keys: &AwsKeys) -> Identity {
    let token = keys.session_token.as_ref().map(|token| token.expose().to_owned());
    Credentials::new(keys.access_key.clone(), keys.secret_key.expose(), token, None, "loadframe").into()
}

impl Scope {
    /// Creates the scope of a service, such as `es`, in a region.
    pub fn new(service: &str, region: &str) -> Self {
        Self { service: service.to_owned(), region: region.to_owned(), digest: PayloadChecksumKind::XAmzSha256 }
    }

    /// Signs a request at `time`: appends headers to `head`, which has the first line and the headers so far. `body` is
    /// the body as sent. The error says why the request cannot be signed.
    pub fn sign(&self, identity: &Identity, time: SystemTime, head: &mut Vec<u8>, body: &[u8]) -> Result<(), String> {
        let headers = self.headers(identity, time, head, body)?;
        for (name, value) in headers {
            for part in [name, ": ", &value, "\r\n"] {
                head.extend_from_slice(part.as_bytes());
            }
        }
        Ok(())
    }

    /// Returns the headers that sign a request at `time`, by name and value. `head` has the first line and the headers
    /// so far, `body` the body as sent. The error says why the request cannot be signed.
    fn headers(
        &self,
        identity: &Identity,
        time: SystemTime,
        head: &[u8],
        body: &[u8],
    ) -> Result<Vec<(&'static str, String)>, String> {
        let text = str::from_utf8(head).map_err(|error| error.to_string())?;
        let mut lines = text.split_terminator("\r\n");
        let first = lines.next().and_then(|line| line.strip_suffix(" HTTP/1.1")?.split_once(' '));
        let (method, path) = first.ok_or("the first line is not valid")?;
        let fields = lines.filter_map(|line| line.split_once(':'));
        let mut settings = SigningSettings::default();
        settings.payload_checksum_kind = self.digest;
        let params = v4::SigningParams::builder()
            .identity(identity)
            .region(&self.region)
            .name(&self.service)
            .time(time)
            .settings(settings)
            .build()
            .map_err(|error| error.to_string())?
            .into();
        let words = |error: aws_sigv4::http_request::SigningError| match std::error::Error::source(&error) {
            Some(cause) => cause.to_string(),
            None => error.to_string(),
        };
        let request = SignableRequest::new(method, path, fields, SignableBody::Bytes(body)).map_err(words)?;
        let (headers, _) = sign(request, &params).map_err(words)?.into_parts().0.into_parts();
        Ok(headers.into_iter().map(|header| (header.name(), header.value().to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loadframe_engine::plan::access::Auth;
    use serde_json::json;

    use super::*;

    /// 2015-08-30T12:36:00Z, the time of the published examples.
    const TIME: Duration = Duration::from_secs(1_440_938_160);
    const TOKEN: &str = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";

    /// Name, start of the first line, further headers, body, signed headers and signature.
    type Case = (&'static str, &'static str, &'static [&'static str], &'static str, &'static str, &'static str);

    /// Requests and signatures of AWS's Signature Version 4 test suite (Apache-2.0). Bodies are unsigned unless `body`
    /// is not empty.
    const SUITE: &[Case] = &[
        (
            "get-utf8",
            "GET /ሴ",
            &[],
            "",
            "host;x-amz-date",
            "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
        ),
        (
            "get-vanilla-query-order-encoded",
            "GET /?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
            &[],
            "",
            "host;x-amz-date",
            "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
        ),
        (
            "post-vanilla",
            "POST /",
            &[],
            "",
            "host;x-amz-date",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "get-header-value-trim",
            "GET /",
            &["My-Header1: value1", "My-Header2: \"a   b   c\""],
            "",
            "host;my-header1;my-header2;x-amz-date",
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
        (
            "get-header-key-duplicate",
            "GET /",
            &["My-Header1:value2", "My-Header1:value2", "My-Header1:value1"],
            "",
            "host;my-header1;x-amz-date",
            "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
        ),
        (
            "get-vanilla-with-session-token",
            "GET /",
            &[],
            "",
            "host;x-amz-date;x-amz-security-token",
            "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
        ),
        (
            "post-x-www-form-urlencoded",
            "POST /",
            &["Content-Type:application/x-www-form-urlencoded", "Content-Length:13"],
            "Param1=value1",
            "content-length;content-type;host;x-amz-content-sha256;x-amz-date",
            "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
        ),
    ];

    /// Returns the key of AWS's test suite, with a session token if given.
    fn key(token: Option<&str>) -> Identity {
        let auth = json!({"aws": {
            "service": "service", "region": "us-east-1", "access_key": "AKIDEXAMPLE",
            "secret_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session_token": token,
        }});
        match serde_json::from_value(auth).unwrap() {
            Auth::Aws { keys, .. } => identity(&keys),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn signatures_equal_those_of_the_published_test_suite() {
        for (name, line, headers, body, signed, signature) in SUITE {
            let mut scope = Scope::new("service", "us-east-1");
            if body.is_empty() {
                scope.digest = PayloadChecksumKind::NoHeader;
            }
            let mut head = format!("{line} HTTP/1.1\r\nhost: example.amazonaws.com\r\n").into_bytes();
            headers.iter().for_each(|header| head.extend_from_slice(format!("{header}\r\n").as_bytes()));
            let token = name.contains("token").then_some(TOKEN);
            scope.sign(&key(token), SystemTime::UNIX_EPOCH + TIME, &mut head, body.as_bytes()).unwrap();
            let head = String::from_utf8(head).unwrap();
            let expected = format!(
                "authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders={signed}, Signature={signature}\r\n"
            );
            assert!(head.contains(&expected), "{name}: {head}");
            assert!(head.contains("x-amz-date: 20150830T123600Z\r\n"), "{name}: {head}");
            assert_eq!(head.contains(&format!("x-amz-security-token: {TOKEN}\r\n")), token.is_some(), "{name}");
        }
    }

    /// Checks the signature of a path with percent-encoded characters, which the signature encodes again.
    #[test]
    fn a_path_is_encoded_once_more_in_the_signature() {
        // `double-url-encode` of the suite: 2021-05-11T15:40:45Z.
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_620_747_645);
        let mut scope = Scope::new("lambda", "us-east-2");
        scope.digest = PayloadChecksumKind::NoHeader;
        let path = "/2015-03-31/functions/arn%3Aaws%3Alambda%3Aus-west-2%3A892717189312%3Afunction%3Amy-rusty-fun";
        let mut head =
            format!("POST {path}/invocations HTTP/1.1\r\nhost: lambda.us-east-2.amazonaws.com\r\n").into_bytes();
        scope.sign(&key(None), time, &mut head, b"").unwrap();
        let signature = "Signature=4b93abbcc68be32bd64c18e2c71150660ab4c29bbd6c32a383a7517a88fc1804\r\n";
        assert!(String::from_utf8(head).unwrap().contains(signature));
    }

    #[test]
    fn a_request_that_cannot_be_signed_says_why() {
        let mut head = b"GET /a b HTTP/1.1\r\nhost: a\r\n".to_vec();
        let error = Scope::new("es", "r").sign(&key(None), SystemTime::UNIX_EPOCH, &mut head, b"").unwrap_err();
        assert_eq!(error, "the uri was invalid");
        assert!(head.ends_with(b"host: a\r\n"), "nothing is appended");
    }
}
