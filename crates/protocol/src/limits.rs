pub const BODY_BYTES: usize = 1_048_576;
pub const REQUEST_BYTES: usize = BODY_BYTES + 4_096;
pub const JSON_DEPTH: usize = 64;
pub const JSON_NODES: usize = 16_384;
pub const NUMBER_BYTES: usize = 256;
pub const NUMBER_EXPONENT: u32 = 400;
use std::time::Duration;
pub const WHEN_BYTES: usize = 4_096;
pub const WHEN_DEPTH: usize = 64;
pub const DEFAULT_ROLE: &str = "approver";
const DAY: Duration = Duration::from_secs(86_400);
pub const APPROVAL_LEASE: Duration = Duration::from_secs(7 * 86_400);
pub const APPROVAL_LEASE_LEAST: Duration = Duration::from_secs(1);
pub const APPROVAL_LEASE_MOST: Duration = Duration::from_secs(400 * 86_400);
pub const DISPATCH_WITHIN: Duration = Duration::from_secs(900);
pub const DISPATCH_WITHIN_MOST: Duration = DAY;
pub const HOT_MOST: Duration = Duration::from_secs(600);
pub const REMINDERS_MOST: usize = 16;
pub const ESCALATION_STEPS_MOST: usize = 3;
pub const ELIGIBLE_MOST: usize = 64;
pub const QUORUM_MOST: u32 = 16;
pub const REASON_BYTES: usize = 4_096;
pub const NAME_BYTES: usize = 256;
pub const SCHEMA_BYTES: usize = 65_536;
pub const PATTERN_BYTES: usize = 1 << 20;
pub const DESCRIPTION_BYTES: usize = 1_024;
pub const VERSION_BYTES: usize = 64;
pub const TOOL_TEXT_BYTES: usize = 4_096;
pub const KEY_LIFE: Duration = DAY;
pub const KEY_LIFE_LEAST: Duration = Duration::from_secs(1);
pub const KEY_LIFE_MOST: Duration = Duration::from_secs(400 * 86_400);
pub const TOOL_TIMEOUT: Duration = Duration::from_secs(30);
pub const TOOL_TIMEOUT_MOST: Duration = Duration::from_secs(3_600);
pub const TOOL_CONCURRENCY: u32 = 16;
pub const TOOL_CONCURRENCY_MOST: u32 = 1_024;
pub const CALLS_MOST: u32 = 10_000;
pub const BODY_BYTES_U64: u64 = BODY_BYTES as u64;
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a whole number and a unit (B, KiB, MiB, GiB), such as \"16MiB\"")]
pub struct SizeError;
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(SizeError),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or(SizeError)
}
