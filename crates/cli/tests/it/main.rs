//! The real binary, from the outside: words in, output and exit code out, on a real store with real guests.

mod audit;
mod backup;
mod bad;
mod crash;
mod cycle;
mod damage;
mod delegate;
mod effects;
mod exits;
mod fork;
mod hardware;
mod home;
mod images;
mod lost;
mod parked;
mod payments;
mod people;
mod processes;
mod programs;
mod receipt;
mod secrets;
mod servers;
mod signals;
mod stops;
mod teller;
mod workflows;
