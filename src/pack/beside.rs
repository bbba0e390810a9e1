//! The packs that stand beside a pack, among which those that it extends are looked for.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use semver::Version;

use super::{
    folder::{Folder, KEPT_BASES, MANIFEST, sorted_names},
    manifest, yaml,
};
use crate::{
    diag::{Diagnostics, Sources},
    model::PackQuery,
};

/// How deep packs may extend each other.
pub(super) const MAX_BASES: usize = 8;

/// A pack, as far as it matters to those that may extend it.
#[derive(Debug)]
pub(super) struct Offer {
    /// Its folder.
    pub(super) root: PathBuf,
    /// The folder in which that stands.
    shelf: PathBuf,
    pub(super) name: String,
    /// None if it cannot be read.
    pub(super) version: Option<Version>,
    extends: Vec<PackQuery>,
}

/// Packs that stand beside each other.
#[derive(Debug, Default)]
pub(super) struct Offers {
    /// By their folders.
    all: BTreeMap<PathBuf, Offer>,
    /// By the folder of a pack those of the packs that it extends, as far as they are there; once somebody asks.
    extended: OnceCell<BTreeMap<PathBuf, Vec<PathBuf>>>,
    /// Whether the folder that holds them was looked through.
    looked: bool,
}

/// Why there is no pack to extend.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoOffer<'o> {
    /// None has the name; these are there.
    Name(Vec<&'o str>),
    /// Those of the name have other versions.
    Version(Vec<&'o Version>),
    /// Two fit equally well: their folders.
    Two(&'o Path, &'o Path),
}

impl Offer {
    fn new(root: &Path, shelf: &Path, manifest: Option<&[u8]>) -> Offer {
        // Who extends it is told what is wrong with it; here only its name counts.
        let (mut sources, mut unheard) = (Sources::new(), Diagnostics::new());
        let text = String::from_utf8_lossy(manifest.unwrap_or_default());
        let file = sources.add("pack.yaml", text.trim_start_matches('\u{feff}'));
        let node = yaml::parse(file, sources.text(file), &mut unheard);
        let read = node.as_ref().map(|node| manifest::read(node, &mut unheard)).unwrap_or_default();
        let extends = node.as_ref().and_then(|node| manifest::extends(node, &mut unheard)).unwrap_or_default();
        let folder = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Offer {
            root: root.to_owned(),
            shelf: shelf.to_owned(),
            name: read.name.map_or(folder, |name| name.value),
            version: read.version.map(|version| version.value),
            extends: extends.into_iter().map(|one| one.query).collect(),
        }
    }

    /// What it is kept under: `NAME@VERSION`.
    pub(super) fn id(&self) -> String {
        format!("{}@{}", self.name, self.version.as_ref().unwrap_or(&Version::new(0, 0, 0)))
    }

    fn fits(&self, query: &PackQuery) -> bool {
        self.name == query.name() && self.version.as_ref().is_none_or(|version| query.matches(version))
    }
}

impl Offers {
    /// Of packs in memory, with those that are kept inside of them.
    pub(super) fn of<'f>(packs: impl IntoIterator<Item = (&'f Path, &'f Folder)>) -> Offers {
        let mut offers = Offers::default();
        for (root, folder) in packs {
            offers.add(Offer::new(root, &shelf(root), folder.manifest()));
            let kept = root.join(KEPT_BASES);
            for (name, base) in &folder.bases {
                offers.add(Offer::new(&kept.join(name), &kept, base.manifest()));
            }
        }
        offers
    }

    fn add(&mut self, offer: Offer) {
        self.all.insert(offer.root.clone(), offer);
        self.extended.take();
    }

    /// Adds, once, what stands beside a pack that was read from a folder by itself. Of each pack its `pack.yaml` alone is looked
    /// at; what cannot be read offers nothing.
    pub(super) fn look_around(&mut self, root: &Path) {
        if std::mem::replace(&mut self.looked, true) {
            return;
        }
        let shelf = shelf(root);
        let boundary = if shelf.as_os_str().is_empty() { Path::new(".") } else { &shelf };
        let own = root.canonicalize().ok();
        for name in sorted_names(boundary).unwrap_or_default() {
            let beside = shelf.join(name);
            if beside.canonicalize().ok() != own
                && let Some(manifest) = Folder::read_manifest(&beside, boundary)
            {
                self.add(Offer::new(&beside, &shelf, Some(&manifest)));
            }
        }
    }

    /// Whether any of them extends another one.
    pub(super) fn extend_each_other(&self) -> bool {
        self.all.values().any(|offer| !offer.extends.is_empty())
    }

    /// The pack that is meant by a pack that asks for one.
    pub(super) fn choose(&self, root: &Path, query: &PackQuery) -> Result<&Offer, NoOffer<'_>> {
        // What is kept with a pack is what it was compiled with.
        let kept = root.join(KEPT_BASES);
        let is_kept = self.all.range(kept.clone()..).next().is_some_and(|(_, offer)| offer.shelf == kept);
        let place = match self.all.get(root) {
            _ if is_kept => kept,
            Some(own) => own.shelf.clone(),
            None => shelf(root),
        };
        let here = || self.all.values().filter(|offer| offer.shelf == place);
        let mut best: Option<&Offer> = None;
        let mut equal = None;
        for offer in self.all.values().filter(|offer| offer.fits(query) && offer.shelf == place) {
            let order = match (best.map(|best| &best.version), &offer.version) {
                (None, _) => std::cmp::Ordering::Greater,
                (Some(Some(best)), Some(version)) => query.order(version, best),
                (Some(best), version) => version.is_some().cmp(&best.is_some()),
            };
            match order {
                std::cmp::Ordering::Greater => (best, equal) = (Some(offer), None),
                std::cmp::Ordering::Equal => equal = Some(offer),
                std::cmp::Ordering::Less => {}
            }
        }
        match (best, equal) {
            (Some(best), Some(equal)) => Err(NoOffer::Two(&best.root, &equal.root)),
            (Some(best), None) => Ok(best),
            (None, _) => {
                let versions: Vec<&Version> =
                    here().filter(|o| o.name == query.name()).filter_map(|o| o.version.as_ref()).collect();
                Err(match versions.as_slice() {
                    [] => NoOffer::Name(here().filter(|o| o.root != root).map(|o| o.name.as_str()).collect()),
                    _ => NoOffer::Version(versions),
                })
            }
        }
    }

    /// The packs that one extends, and those that these extend, as far as they are there; level by level, each once.
    pub(super) fn reached(&self, root: &Path) -> Vec<&Offer> {
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        let mut level = self.bases(root);
        while !level.is_empty() {
            level.retain(|offer| seen.insert(offer.root.as_path()));
            all.extend(level.iter().copied());
            level = level.into_iter().flat_map(|offer| self.bases(&offer.root)).collect();
        }
        all
    }

    /// How many packs stand in line below one, at most; `None` if that is more than may be, or has no end.
    pub(super) fn depth(&self, root: &Path) -> Option<usize> {
        let mut level = self.bases(root);
        for depth in 0..=MAX_BASES {
            if level.is_empty() {
                return Some(depth);
            }
            let next: Vec<&Offer> = level.into_iter().flat_map(|offer| self.bases(&offer.root)).collect();
            let mut seen = BTreeSet::new();
            level = next.into_iter().filter(|offer| seen.insert(offer.root.as_path())).collect();
        }
        None
    }

    fn bases(&self, root: &Path) -> Vec<&Offer> {
        let extended = self.extended.get_or_init(|| {
            let chosen = |offer: &Offer| -> Vec<PathBuf> {
                offer
                    .extends
                    .iter()
                    .filter_map(|query| Some(self.choose(&offer.root, query).ok()?.root.clone()))
                    .collect()
            };
            self.all.iter().map(|(root, offer)| (root.clone(), chosen(offer))).collect()
        });
        extended.get(root).into_iter().flatten().filter_map(|root| self.all.get(root)).collect()
    }
}

/// Whether the files of a pack say that it extends others.
pub fn extends_others(files: &BTreeMap<PathBuf, Vec<u8>>) -> bool {
    let manifest = files.get(Path::new(MANIFEST));
    !Offer::new(Path::new(""), Path::new(""), manifest.map(Vec::as_slice)).extends.is_empty()
}

/// The folder in which a pack's folder stands.
fn shelf(root: &Path) -> PathBuf {
    match (root.file_name(), root.parent()) {
        (Some(_), Some(parent)) => parent.to_owned(),
        _ => root.join(".."),
    }
}
