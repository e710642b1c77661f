//! Header names and fixed values, parsed once by the compiler.

use http::{HeaderName, HeaderValue};
use wire::headers;

macro_rules! names {
    ($($name:ident = $text:expr;)*) => {$(
        pub(crate) static $name: HeaderName = HeaderName::from_static($text);
    )*};
}

names! {
    NEXT_OFFSET = headers::NEXT_OFFSET;
    EARLIEST_OFFSET = headers::EARLIEST_OFFSET;
    START_OFFSET = headers::START_OFFSET;
    FRAMING = headers::FRAMING;
    OUTCOME = headers::OUTCOME;
    INCARNATION = headers::INCARNATION;
    CREATED_AT = headers::CREATED_AT;
    EXTENSIONS = headers::EXTENSIONS;
    UP_TO_DATE = headers::UP_TO_DATE;
    CLOSED = headers::CLOSED;
    CURSOR = headers::CURSOR;
    SEQ = headers::SEQ;
    EXPECTED_OFFSET = headers::EXPECTED_OFFSET;
    TTL = headers::TTL;
    EXPIRES_AT = headers::EXPIRES_AT;
    FORKED_FROM = headers::FORKED_FROM;
    FORK_OFFSET = headers::FORK_OFFSET;
    FORK_SUB_OFFSET = headers::FORK_SUB_OFFSET;
    SSE_DATA_ENCODING = headers::SSE_DATA_ENCODING;
    PRODUCER_ID = headers::PRODUCER_ID;
    PRODUCER_EPOCH = headers::PRODUCER_EPOCH;
    PRODUCER_SEQ = headers::PRODUCER_SEQ;
    PRODUCER_EXPECTED_SEQ = headers::PRODUCER_EXPECTED_SEQ;
    PRODUCER_RECEIVED_SEQ = headers::PRODUCER_RECEIVED_SEQ;
    CROSS_ORIGIN_RESOURCE_POLICY = "cross-origin-resource-policy";
    SEC_FETCH_SITE = "sec-fetch-site";
    X_FORWARDED_PROTO = "x-forwarded-proto";
    X_FORWARDED_FOR = "x-forwarded-for";
}

macro_rules! values {
    ($($name:ident = $text:literal;)*) => {$(
        pub(crate) static $name: HeaderValue = HeaderValue::from_static($text);
    )*};
}

values! {
    TRUE = "true";
    NO_STORE = "no-store";
    NO_CACHE = "no-cache";
    SHARED_MINUTE = "public, max-age=60, stale-while-revalidate=300";
    PRIVATE_MINUTE = "private, max-age=60, stale-while-revalidate=300";
    NOSNIFF = "nosniff";
    CROSS_ORIGIN = "cross-origin";
    SAME_ORIGIN = "same-origin";
    INERT = "default-src 'none'; sandbox";
    ATTACHMENT = "attachment";
    ACCEPT_ENCODING = "accept-encoding";
    WHAT_READS_VARY_BY = "accept-encoding, stream-framing, authorization, origin";
    GZIP = "gzip";
    BASE64 = "base64";
    LENGTH = "length";
    NEW = "new";
    DUPLICATE = "duplicate";
    ALL_EXTENSIONS = "framing, list, expected-offset, trim, watch";
    BEARER = "Bearer";
    ONE_SECOND = "1";
    JSON = "application/json";
    JWK_SET = "application/jwk-set+json";
    FIVE_MINUTES = "public, max-age=300";
    PROBLEM_JSON = "application/problem+json";
    EVENT_STREAM = "text/event-stream";
    PLAIN_TEXT = "text/plain; charset=utf-8";
    PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8";
}
