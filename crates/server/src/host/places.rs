//! Places for connections: so many of a listener, and so many of one address among them (I-39).

use crate::auth::Door;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// How many connections each address has.
#[derive(Clone, Default)]
pub(super) struct Places {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One place of an address; free again when this is dropped.
pub(super) struct Place {
    places: Places,
    of: Option<IpAddr>,
}

impl Places {
    /// A place for one more connection through this door; `None` where its address has `most` already. Whoever reaches the
    /// socket is one with the process, and not counted.
    pub(super) fn take(&self, door: Door, most: usize) -> Option<Place> {
        let of = match door {
            Door::Socket => None,
            Door::Tcp(address) => Some(holder(address)),
        };
        if let Some(address) = of {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            let count = taken.entry(address).or_default();
            if *count >= most {
                return None;
            }
            *count += 1;
        }
        Some(Place { places: self.clone(), of })
    }
}

/// Who has an address: of the new protocol one network, since each of its members has addresses without end.
fn holder(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => IpAddr::V4(mapped),
            None => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        },
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(address) = self.of else { return };
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_others_have_theirs() {
        let places = Places::default();
        let take = |address: &str| places.take(Door::Tcp(address.parse().unwrap()), 2);
        let (one, _two) = (take("192.0.2.1"), take("::ffff:192.0.2.1"));
        assert!(take("192.0.2.1").is_none() && take("192.0.2.2").is_some()); // I-39
        drop(one);
        assert!(take("192.0.2.1").is_some()); // I-39
        let _network = [take("2001:db8::1"), take("2001:db8::2")];
        assert!(take("2001:db8::3").is_none() && take("2001:db8:0:1::3").is_some()); // I-39
        assert!((0..9).all(|_| places.take(Door::Socket, 0).is_some()));
        drop((_two, _network));
        assert!(places.taken.lock().unwrap().is_empty());
    }
}
