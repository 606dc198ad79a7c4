//! `/metrics` in the text format of Prometheus (I-35).
//!
//! Owns the counts of the door and the writing of the format. What the engine and the ledger count is asked of them when
//! a page is written; nothing here is ever read to decide anything.

use axum::http::{Method, StatusCode};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the buckets of answer times, in milliseconds.
const BUCKETS_MS: [u64; 10] = [1, 5, 10, 25, 50, 100, 250, 1_000, 5_000, 60_000];

/// Series of the door: each combination of method, route and status that was ever answered. Routes are those of the
/// table and statuses those of the codes, so their number is bounded.
#[derive(Default)]
pub(crate) struct Metrics {
    answers: Mutex<BTreeMap<(String, String, u16), Times>>,
    streams: AtomicI64,
}

#[derive(Clone, Copy, Default)]
struct Times {
    count: u64,
    sum_us: u64,
    /// Answers within each bound; cumulative only when written.
    within: [u64; BUCKETS_MS.len()],
}

/// One number of another part, with its labels.
#[derive(Clone, Debug)]
pub(crate) struct Gauge {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// `counter` or `gauge`.
    pub(crate) kind: &'static str,
    pub(crate) values: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// Counts a stream while it lives.
pub(crate) struct OpenStream(crate::http::App);

impl OpenStream {
    pub(crate) fn new(app: crate::http::App) -> OpenStream {
        app.metrics.streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(app)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.metrics.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(crate) fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        // A method that no route takes is text of the caller's, and would be a series for each.
        let method = if route == "(none)" { "(any)" } else { method.as_str() };
        let key = (method.to_owned(), route.to_owned(), status.as_u16());
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let times = answers.entry(key).or_default();
        times.count += 1;
        times.sum_us += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = BUCKETS_MS.iter().position(|bound| took.as_millis() <= u128::from(*bound)) {
            times.within[bucket] += 1;
        }
    }

    /// The page: the door's own series, then `others`.
    pub(crate) fn page(&self, others: &[Gauge]) -> String {
        let mut page = String::new();
        head(&mut page, "stasis_http_requests_total", "Answers by route and status.", "counter");
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for ((method, route, status), times) in &answers {
            let labels = labels(&[("method", method), ("route", route), ("status", &status.to_string())]);
            let _ = writeln!(page, "stasis_http_requests_total{labels} {}", times.count);
        }
        head(&mut page, "stasis_http_request_seconds", "Time to the head of an answer, by route.", "histogram");
        for ((method, route), times) in by_route(&answers) {
            let mut sum = 0;
            for (bound, within) in BUCKETS_MS.iter().zip(times.within) {
                sum += within;
                let labels = labels(&[("method", method), ("route", route), ("le", &seconds(*bound))]);
                let _ = writeln!(page, "stasis_http_request_seconds_bucket{labels} {sum}");
            }
            let all = labels(&[("method", method), ("route", route), ("le", "+Inf")]);
            let plain = labels(&[("method", method), ("route", route)]);
            let _ = writeln!(page, "stasis_http_request_seconds_bucket{all} {}", times.count);
            let _ = writeln!(page, "stasis_http_request_seconds_sum{plain} {}", times.sum_us as f64 / 1e6);
            let _ = writeln!(page, "stasis_http_request_seconds_count{plain} {}", times.count);
        }
        head(&mut page, "stasis_event_streams", "Event streams that are open.", "gauge");
        let _ = writeln!(page, "stasis_event_streams {}", self.streams.load(Ordering::Relaxed));
        for gauge in others {
            head(&mut page, gauge.name, gauge.help, gauge.kind);
            for (pairs, value) in &gauge.values {
                let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
                let _ = writeln!(page, "{}{} {value}", gauge.name, labels(&pairs));
            }
        }
        page
    }
}

type Answers = BTreeMap<(String, String, u16), Times>;

fn by_route(answers: &Answers) -> BTreeMap<(&str, &str), Times> {
    let mut routes: BTreeMap<(&str, &str), Times> = BTreeMap::new();
    for ((method, route, _), times) in answers {
        let sum = routes.entry((method, route)).or_default();
        sum.count += times.count;
        sum.sum_us += times.sum_us;
        for (sum, within) in sum.within.iter_mut().zip(times.within) {
            *sum += within;
        }
    }
    routes
}

fn head(page: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn seconds(ms: u64) -> String {
    (ms as f64 / 1e3).to_string()
}

fn labels(pairs: &[(&str, &str)]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let escaped = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_route_and_their_times_fall_into_buckets() {
        let metrics = Metrics::default();
        metrics.answered(&Method::GET, "/v1/runs", StatusCode::OK, Duration::from_millis(3));
        metrics.answered(&Method::GET, "/v1/runs", StatusCode::NOT_FOUND, Duration::from_secs(70));
        metrics.answered(&Method::from_bytes(b"NONSENSE").unwrap(), "(none)", StatusCode::NOT_FOUND, Duration::ZERO);
        let gauge = Gauge { name: "x", help: "h", kind: "gauge", values: vec![(vec![("a", "q\"\n".into())], 2.0)] };
        let page = metrics.page(&[gauge]);
        for line in [
            r#"stasis_http_requests_total{method="GET",route="/v1/runs",status="200"} 1"#,
            r#"stasis_http_requests_total{method="(any)",route="(none)",status="404"} 1"#,
            r#"stasis_http_request_seconds_bucket{method="GET",route="/v1/runs",le="0.001"} 0"#,
            r#"stasis_http_request_seconds_bucket{method="GET",route="/v1/runs",le="0.005"} 1"#,
            r#"stasis_http_request_seconds_bucket{method="GET",route="/v1/runs",le="60"} 1"#,
            r#"stasis_http_request_seconds_bucket{method="GET",route="/v1/runs",le="+Inf"} 2"#,
            r#"stasis_http_request_seconds_count{method="GET",route="/v1/runs"} 2"#,
            r#"x{a="q\"\n"} 2"#,
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}"); // I-35
        }
    }
}
