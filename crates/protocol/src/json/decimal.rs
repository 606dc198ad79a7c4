//! Exact comparison of number literals, whatever their length (C-18).

use std::cmp::Ordering;

use super::Number;

/// A literal taken apart: sign, digits without zeros at either end, and the power of ten of the first digit.
struct Parts<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    /// Of zero: the least there is.
    magnitude: i64,
}

impl<'a> Parts<'a> {
    fn of(literal: &'a str) -> Self {
        let (negative, rest) = match literal.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, literal),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().expect("an exponent within ±400")),
            None => (rest, 0i64),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut parts = Self { negative, whole: whole.as_bytes(), fraction: fraction.as_bytes(), magnitude: i64::MIN };
        let zeros = parts.digits().position(|digit| digit != b'0');
        if let Some(zeros) = zeros {
            parts.magnitude = whole.len() as i64 - 1 - zeros as i64 + exponent;
        }
        parts
    }

    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.whole.iter().chain(self.fraction).copied()
    }

    /// The digits as a number that does not end in a zero, and the power of ten to multiply it by.
    fn scaled(&self) -> (u128, i64) {
        let digits = self.digits().skip_while(|&digit| digit == b'0');
        let (mut number, mut count, mut kept) = (0u128, 0, 0);
        for digit in digits {
            count += 1;
            if digit != b'0' {
                for _ in kept..count - 1 {
                    number *= 10;
                }
                number = number * 10 + u128::from(digit - b'0');
                kept = count;
            }
        }
        (number, self.magnitude.saturating_sub(kept - 1))
    }

    fn is_zero(&self) -> bool {
        self.magnitude == i64::MIN
    }

    /// The digits from the first that is not zero, without end.
    fn significant(&self) -> impl Iterator<Item = u8> + '_ {
        self.digits().skip_while(|&digit| digit == b'0').chain(std::iter::repeat(b'0'))
    }

    /// Whether no digit stands behind the decimal point once the exponent is applied.
    fn is_integer(&self) -> bool {
        let last = self.digits().skip_while(|&digit| digit == b'0').enumerate();
        let last = last.filter(|&(_, digit)| digit != b'0').last();
        last.is_none_or(|(at, _)| at as i64 <= self.magnitude)
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl From<&serde_json::Number> for Number {
    fn from(number: &serde_json::Number) -> Self {
        Self(number.to_string().into())
    }
}

impl Number {
    /// Compares the values exactly as they are written: `1`, `1.0` and `1e0` are equal, `-0` is zero.
    pub fn compare(&self, other: &Self) -> Ordering {
        let (a, b) = (Parts::of(self.as_str()), Parts::of(other.as_str()));
        let signum = |parts: &Parts<'_>| match parts.is_zero() {
            true => 0,
            false if parts.negative => -1,
            false => 1,
        };
        let (sign, other_sign) = (signum(&a), signum(&b));
        if sign != other_sign || sign == 0 {
            return sign.cmp(&other_sign);
        }
        // Digits beyond both literals are zeros on both sides.
        let most = self.as_str().len().max(other.as_str().len());
        let digits = || a.significant().take(most).cmp(b.significant().take(most));
        let order = a.magnitude.cmp(&b.magnitude).then_with(digits);
        if sign < 0 { order.reverse() } else { order }
    }

    /// Whether the value is an integer, however it is written.
    pub fn is_integer(&self) -> bool {
        Parts::of(self.as_str()).is_integer()
    }

    /// The value, if it is an integer of 64 bits (signed or not), however it is written.
    pub fn whole(&self) -> Option<i128> {
        let parts = Parts::of(self.as_str());
        if parts.is_zero() {
            return Some(0);
        }
        if parts.magnitude > 19 || !parts.is_integer() {
            return None;
        }
        let digits = parts.significant().take(parts.magnitude as usize + 1);
        let value = digits.fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'));
        let value = if parts.negative { -value } else { value };
        (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value).then_some(value)
    }

    /// Whether the value is a whole number of times the divisor. Both are exact, so their digits fit 128 bits.
    pub(crate) fn is_multiple_of(&self, divisor: &Self) -> bool {
        let (value, places) = Parts::of(self.as_str()).scaled();
        let (mut divisor, divisor_places) = Parts::of(divisor.as_str()).scaled();
        if value == 0 || divisor == 0 {
            return value == 0 && divisor != 0;
        }
        // Asked is whether `divisor` divides `value` times a power of ten. A negative power leaves a fraction, since
        // `value` does not end in a zero; each positive one cancels a factor of ten.
        let tens = places - divisor_places;
        for _ in 0..tens.max(0) {
            match gcd(divisor, 10) {
                1 => break,
                common => divisor /= common,
            }
        }
        tens >= 0 && value.is_multiple_of(divisor)
    }

    /// Whether the literal is a 64-bit integer or equals its shortest binary64 form; others fail every numeric keyword.
    pub fn is_exact(&self) -> bool {
        if self.whole().is_some() {
            return true;
        }
        let shortest =
            Self(serde_json::Number::from_f64(self.as_f64()).expect("literals are finite").to_string().into());
        self.compare(&shortest) == Ordering::Equal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(literal: &str) -> Number {
        Number(literal.into())
    }

    #[test]
    fn literals_compare_by_value_without_rounding() {
        let ascending = [
            "-1e400",
            "-9007199254740993",
            "-9007199254740992",
            "-10",
            "-1.5",
            "-1",
            "-1e-400",
            "0",
            "1e-400",
            "1e-399",
            "0.1",
            "0.1000000000000000055",
            "0.11",
            "1",
            "1.0000000000000000000000001",
            "2",
            "10",
            "9007199254740992",
            "9007199254740993",
            "1e300",
            "1.1e300",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                // C-18
                assert_eq!(number(a).compare(&number(b)), i.cmp(&j), "{a} {b}");
            }
        }
        for (a, b) in
            [("1", "1.0"), ("1", "1e0"), ("100", "1E+2"), ("0.10", "1e-1"), ("-0", "0.000e5"), ("12.30e1", "123")]
        {
            assert_eq!(number(a).compare(&number(b)), Ordering::Equal, "{a} {b}");
        }
    }

    #[test]
    fn multiples_are_told_in_decimal() {
        let yes = [
            ("0.3", "0.1"),
            ("0", "7"),
            ("4.02", "0.01"),
            ("9007199254740993", "3"),
            ("-6", "1.5"),
            ("1e2", "100"),
            ("100", "1e2"),
        ];
        let no =
            [("0.35", "0.1"), ("9007199254740993", "2"), ("1e300", "7"), ("5", "1e1"), ("1e-5", "1e-4"), ("7", "14")];
        for (value, divisor) in yes {
            // C-18
            assert!(number(value).is_multiple_of(&number(divisor)), "{value} {divisor}");
        }
        for (value, divisor) in no {
            // C-18
            assert!(!number(value).is_multiple_of(&number(divisor)), "{value} {divisor}");
        }
    }

    #[test]
    fn integers_are_told_by_value() {
        for literal in ["0", "-0.0", "1.0", "1e2", "1.5e1", "120e-1", "123456789012345678901234567890"] {
            // C-18
            assert!(number(literal).is_integer(), "{literal}");
        }
        for literal in ["0.5", "1.00000000000000000001", "1e-1", "15e-1", "1.55e1"] {
            assert!(!number(literal).is_integer(), "{literal}");
        }
    }

    #[test]
    fn exact_literals_are_64_bit_integers_or_their_own_shortest_form() {
        for literal in [
            "0",
            "-0.0",
            "18446744073709551615",
            "-9223372036854775808",
            "9007199254740993",
            "9007199254740993.0",
            "0.1",
            "1e2",
            "0.10",
            "1e300",
        ] {
            // C-18
            assert!(number(literal).is_exact(), "{literal}");
        }
        for literal in ["18446744073709551616", "0.1000000000000000055", "1.00000000000000000001", "1e-400"] {
            // C-18
            assert!(!number(literal).is_exact(), "{literal}");
        }
    }
}
