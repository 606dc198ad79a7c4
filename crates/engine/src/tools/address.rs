//! Which addresses a tool may be connected to (C-253).
//!
//! Owns the classes of addresses and the rule that everything but a public unicast address has to be named. It resolves
//! nothing and connects to nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is reachable from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Anyone's.
    Public,
    /// This machine.
    Loopback,
    /// A private network, provider-internal ones included.
    Private,
    /// The local link, which is where clouds answer with metadata and credentials.
    LinkLocal,
    /// Unspecified, multicast, broadcast, documentation, reserved: nowhere a call has business.
    Special,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Special => "reserved",
        })
    }
}

/// The class of an address. An IPv6 address that carries an IPv4 address is judged by that.
pub(super) fn class(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => class_v4(address),
        IpAddr::V6(address) => match carried(address) {
            Some(inner) => class_v4(inner),
            None => class_v6(address),
        },
    }
}

fn class_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        [127, ..] => Class::Loopback,
        [10, ..] | [192, 168, ..] => Class::Private,
        [172, second, ..] if (16..32).contains(&second) => Class::Private,
        [100, second, ..] if (64..128).contains(&second) => Class::Private,
        [169, 254, ..] => Class::LinkLocal,
        [0, ..] | [224..=255, ..] => Class::Special,
        [192, 0, 0 | 2, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => Class::Special,
        _ => Class::Public,
    }
}

fn class_v6(address: Ipv6Addr) -> Class {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        [first, ..] if first & 0xfe00 == 0xfc00 => Class::Private,
        [first, ..] if first & 0xffc0 == 0xfec0 => Class::Private,
        [first, ..] if first & 0xffc0 == 0xfe80 => Class::LinkLocal,
        [0x2001, 0xdb8, ..] | [0x2001, 0..0x200, ..] => Class::Special,
        // What is not global unicast today is nowhere a call has business.
        [first, ..] if first & 0xe000 != 0x2000 => Class::Special,
        _ => Class::Public,
    }
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, translated (NAT64) or 6to4.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let low = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, a, b] => Some(low(a, b)),
        [0, 0, 0, 0, 0, 0, a, b] if a != 0 => Some(low(a, b)),
        [0x64, 0xff9b, 0, 0, 0, 0, a, b] => Some(low(a, b)),
        [0x2002, a, b, ..] => Some(low(a, b)),
        _ => None,
    }
}

/// A network in CIDR form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    bits: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`; bits beyond the prefix have to be zero.
    pub fn parse(text: &str) -> Option<Self> {
        let (base, bits) = text.split_once('/')?;
        if bits.is_empty() || !bits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let (base, bits) = (base.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?);
        let (value, width) = number(base);
        let network = Self { base, bits };
        (bits <= width && value & !network.mask() == 0).then_some(network)
    }

    /// Whether the address lies in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((address, width), (base, own_width)) = (number(address), number(self.base));
        width == own_width && address & self.mask() == base
    }

    fn mask(&self) -> u128 {
        let (_, width) = number(self.base);
        let all = if width == 128 { u128::MAX } else { (1 << width) - 1 };
        let host_bits = u32::from(width.saturating_sub(self.bits));
        all & all.checked_shl(host_bits).unwrap_or(0)
    }
}

fn number(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_unicast_addresses_are_public() {
        use Class::{LinkLocal, Loopback, Private, Public, Special};
        let table = [
            ("8.8.8.8", Public),
            ("127.0.0.1", Loopback),
            ("127.255.0.9", Loopback),
            ("10.0.0.1", Private),
            ("172.15.0.1", Public),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("172.32.0.1", Public),
            ("192.168.1.1", Private),
            ("100.64.0.1", Private),
            ("100.128.0.1", Public),
            ("169.254.169.254", LinkLocal),
            ("0.0.0.0", Special),
            ("224.0.0.1", Special),
            ("255.255.255.255", Special),
            ("198.18.0.1", Special),
            ("::1", Loopback),
            ("::", Special),
            ("fd00:ec2::254", Private),
            ("fe80::1", LinkLocal),
            ("ff02::1", Special),
            ("2606:4700::1111", Public),
            ("2001:db8::1", Special),
            ("::ffff:127.0.0.1", Loopback),
            ("::ffff:169.254.169.254", LinkLocal),
            ("64:ff9b::a9fe:a9fe", LinkLocal),
            ("64:ff9b::808:808", Public),
            ("2002:7f00:1::", Loopback),
        ];
        for (text, expected) in table {
            assert_eq!(class(text.parse().expect("address")), expected, "{text}"); // C-253
        }
    }

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        let network = Network::parse("10.0.0.0/8").expect("network");
        assert!(network.contains("10.255.1.2".parse().expect("address")));
        assert!(!network.contains("11.0.0.0".parse().expect("address")));
        assert!(!network.contains("::a00:1".parse().expect("address")));
        assert!(Network::parse("0.0.0.0/0").expect("network").contains("9.9.9.9".parse().expect("address")));
        let exact = Network::parse("::1/128").expect("network");
        assert!(exact.contains("::1".parse().expect("address")) && !exact.contains("::2".parse().expect("address")));
        for bad in ["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "x/8"] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }
}
