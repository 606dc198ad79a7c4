//! The programs that are measured.

/// The refund example, as users start from it.
pub(crate) const REFUND: &str = include_str!("../../examples/refund/refund.py");

/// Asks at once: its journal is cheaper to replay than a guest is to thaw, so it parks without a snapshot.
pub(crate) const ASKS: &str = "answer = stasis.gate('Go on?')\nresult = answer.status\n";

/// Works before it asks, so that its guest is frozen; it holds little, as the refund program does.
pub(crate) const WORKS: &str = "\
total = 0
for number in range(400_000):
    total += number
answer = stasis.gate('Go on?')
result = total
";
