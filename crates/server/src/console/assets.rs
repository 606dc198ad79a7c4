//! The files that pages load: one style sheet, one script, one picture, all part of the binary.
//!
//! Each is served under a name with the hash of its content, so it may be kept for ever and a new binary is never shown
//! with an old style. Nothing is loaded from another host (I-51).

use maud::{Markup, html};
use protocol::digest::Digest;
use std::sync::LazyLock;

/// A file with its type.
pub(super) struct Asset {
    stem: &'static str,
    extension: &'static str,
    pub media_type: &'static str,
    pub content: &'static str,
    path: LazyLock<String>,
}

macro_rules! asset {
    ($name:ident, $stem:literal, $extension:literal, $media_type:literal, $($file:literal),+) => {
        pub(super) static $name: Asset = Asset {
            stem: $stem,
            extension: $extension,
            media_type: $media_type,
            content: concat!($(include_str!($file)),+),
            path: LazyLock::new(|| path(&$name)),
        };
    };
}

asset!(STYLE, "style", "css", "text/css; charset=utf-8", "style/base.css", "style/parts.css", "style/pages.css");
asset!(SCRIPT, "app", "js", "text/javascript; charset=utf-8", "app.js");
asset!(ICON, "icon", "svg", "image/svg+xml", "icon.svg");

/// Where every asset lies.
const FOLDER: &str = "/console/assets/";

fn path(asset: &Asset) -> String {
    let digest = Digest::of(asset.content).to_string();
    let hash = &digest["sha256:".len()..][..12];
    format!("{FOLDER}{}.{hash}.{}", asset.stem, asset.extension)
}

impl Asset {
    /// The path with the hash in it.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The asset with this file name.
    pub(super) fn named(name: &str) -> Option<&'static Asset> {
        [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| asset.path().strip_prefix(FOLDER) == Some(name))
    }
}

/// The mark before the word: two bars, a pause, of which one is still running.
pub(super) fn mark() -> Markup {
    html! {
        svg.logo viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" {
            rect x="2" y="2" width="4.5" height="12" rx="1" {}
            path d="M9.5 2.9 14 8l-4.5 5.1z" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asset_is_found_by_the_name_with_its_hash_only() {
        for asset in [&STYLE, &SCRIPT, &ICON] {
            let name = asset.path().strip_prefix(FOLDER).unwrap();
            assert_eq!(Asset::named(name).unwrap().content, asset.content);
            assert_eq!(name.split('.').nth(1).unwrap().len(), 12);
        }
        assert!(Asset::named("style.css").is_none() && Asset::named("../style.css").is_none());
    }

    #[test]
    fn no_asset_names_another_host() {
        for asset in [&STYLE, &SCRIPT] {
            assert!(!asset.content.contains("http:") && !asset.content.contains("https:"), "{}", asset.path()); // I-51
        }
        assert!(!STYLE.content.contains("@import") && !STYLE.content.contains("url(")); // I-51
    }
}
