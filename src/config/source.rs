//! Reads the config's files and lays the environment over them. Knows where each value came from; not what
//! it means.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider, Source};

use super::environment::{Environment, Override};
use super::fault::{Fault, Place};
use super::key::KeyPath;
use super::raw::RawConfig;
use super::syntax::{self, Lines};

/// Bytes that a config file may have; a larger one is not a config, and would take long to be refused.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Everything that was read, merged, with its origin.
pub(super) struct Sources {
    root: PathBuf,
    tenant_files: BTreeMap<String, PathBuf>,
    lines: BTreeMap<PathBuf, Lines>,
    figment: Figment,
    /// What could not be read; nothing is known of the keys below these.
    pub(super) unread: Vec<KeyPath>,
    /// The merged values, by tenant under `tenants`.
    pub(super) tree: Value,
}

impl Sources {
    /// Reads `DIR/outrider.toml` and `DIR/tenants/*.toml`. What can't be read is a fault, and the rest is
    /// read all the same.
    pub(super) fn read(dir: &Path, environment: &Environment, faults: &mut Vec<Fault>) -> Sources {
        let mut sources = Sources {
            root: dir.join("outrider.toml"),
            tenant_files: BTreeMap::new(),
            lines: BTreeMap::new(),
            figment: Figment::new(),
            unread: Vec::new(),
            tree: Value::from(Dict::new()),
        };
        sources.read_root(faults);
        sources.read_tenants(&dir.join("tenants"), faults);
        for found in environment.overrides() {
            sources.merge(Layer::of_variable(&found));
        }
        match sources.figment.extract::<Value>() {
            Ok(tree) => sources.tree = tree,
            Err(error) => faults.push(Fault {
                place: Place::file(dir),
                key: String::new(),
                value: None,
                rule: format!("could not be merged: {}", error.kind),
                remedy: String::new(),
            }),
        }
        sources
    }

    fn read_root(&mut self, faults: &mut Vec<Fault>) {
        let root = self.root.clone();
        match self.read_file(&root) {
            Ok(mut table) => {
                if table.remove("tenants").is_some() {
                    faults.push(Fault {
                        place: self.place(&root, &KeyPath::new(["tenants"])),
                        key: "tenants".into(),
                        value: None,
                        rule: "tenants have no place in this file".into(),
                        remedy: "write each into a file of its own, `tenants/NAME.toml`".into(),
                    });
                }
                self.merge(Layer::of_file(&root, dict(&table)));
            }
            Err(fault) => {
                faults.push(*fault);
                let sections = RawConfig::KEYS.iter().filter(|section| **section != "tenants");
                self.unread.extend(sections.map(|section| KeyPath::new([*section])));
            }
        }
    }

    fn read_tenants(&mut self, dir: &Path, faults: &mut Vec<Fault>) {
        let files = match tenant_files(dir) {
            Ok(files) => files,
            Err(error) => {
                faults.push(unreadable(dir, &error));
                return;
            }
        };
        for file in files {
            let Some(name) = file.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned) else {
                faults.push(Fault {
                    place: Place::file(&file),
                    key: String::new(),
                    value: None,
                    rule: "the file's name is not Unicode, so it names no tenant".into(),
                    remedy: "rename it to `NAME.toml`".into(),
                });
                continue;
            };
            self.tenant_files.insert(name.clone(), file.clone());
            match self.read_file(&file) {
                Ok(table) => {
                    let tenants = Dict::from([(name, Value::from(dict(&table)))]);
                    let root = Dict::from([("tenants".to_owned(), Value::from(tenants))]);
                    self.merge(Layer::of_file(&file, root));
                }
                Err(fault) => {
                    faults.push(*fault);
                    self.unread.push(KeyPath::new(["tenants", name.as_str()]));
                }
            }
        }
    }

    fn read_file(&mut self, path: &Path) -> Result<toml::Table, Box<Fault>> {
        let text = read_text(path, MAX_FILE_BYTES).map_err(|error| Box::new(unreadable(path, &error)))?;
        let table = syntax::parse(path, &text)?;
        self.lines.insert(path.to_owned(), Lines::of(&text));
        Ok(table)
    }

    fn merge(&mut self, layer: Layer) {
        self.figment = std::mem::take(&mut self.figment).merge(layer);
    }

    /// The merged value at a path.
    pub(super) fn value(&self, path: &KeyPath) -> Option<&Value> {
        path.keys().iter().try_fold(&self.tree, |value, key| match value {
            Value::Dict(_, dict) => dict.get(key),
            Value::Array(_, array) => array.get(key.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Where the value at a path came from, and the key there; for a missing value where it would be.
    pub(super) fn origin(&self, path: &KeyPath) -> (Place, KeyPath) {
        let source = self
            .value(path)
            .filter(|value| value.as_dict().is_none())
            .and_then(|value| self.figment.get_metadata(value.tag()))
            .and_then(|metadata| metadata.source.as_ref());
        if let Some(Source::Custom(variable)) = source {
            return (Place::Variable(variable.clone()), path.clone());
        }
        let (file, key) = match path.tenant() {
            Some(name) => match self.tenant_files.get(name) {
                Some(file) => (file.clone(), path.inside_tenant()),
                // A tenant of variables alone.
                None => {
                    (self.root.with_file_name("tenants").join(format!("{name}.toml")), path.inside_tenant())
                }
            },
            None => (self.root.clone(), path.clone()),
        };
        (self.place(&file, &key), key)
    }

    /// True if the value at a path was given by a variable of its own.
    pub(super) fn is_from_variable(&self, path: &KeyPath) -> bool {
        matches!(self.origin(path).0, Place::Variable(_))
    }

    fn place(&self, file: &Path, key: &KeyPath) -> Place {
        let line = self.lines.get(file).and_then(|lines| lines.of_key(key));
        Place::File { path: file.to_owned(), line }
    }
}

/// Values of one origin.
struct Layer {
    metadata: Metadata,
    values: Dict,
}

impl Layer {
    fn of_file(path: &Path, values: Dict) -> Self {
        Layer { metadata: Metadata::from("TOML file", path), values }
    }

    fn of_variable(found: &Override<'_>) -> Self {
        let value = of_text(found.value);
        let nested =
            found.path.iter().rev().fold(value, |inner, key| Dict::from([(key.clone(), inner)]).into());
        let metadata = Metadata::from("environment variable", found.variable);
        Layer { metadata, values: nested.into_dict().unwrap_or_default() }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

/// The value that a variable's text stands for: a TOML number, boolean, quoted string, array or inline table,
/// else the text itself. Not figment's own notation: its parser panics on an escape behind a character of
/// several bytes, and has no limit to how deep arrays nest.
fn of_text(text: &str) -> Value {
    match text.parse::<toml::Value>() {
        Ok(toml::Value::Datetime(_)) | Err(_) => Value::from(text),
        Ok(toml::Value::Float(number)) if !number.is_finite() => Value::from(text),
        Ok(value) => Value::serialize(value).unwrap_or_else(|_| Value::from(text)),
    }
}

/// figment's form of a TOML table.
fn dict(table: &toml::Table) -> Dict {
    Value::serialize(table).ok().and_then(Value::into_dict).unwrap_or_default()
}

/// `*.toml` of a directory, sorted; none if it isn't there. Names that start with a dot are editors' and
/// Kubernetes' own.
fn tenant_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads a small text file whole; a larger one is refused before it fills the memory.
pub(super) fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(max_bytes + 1).read_to_string(&mut text)?;
    if text.len() as u64 > max_bytes {
        let limit = format!("larger than {} KiB", max_bytes / 1024);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, limit));
    }
    Ok(text)
}

fn unreadable(path: &Path, error: &io::Error) -> Fault {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "name the directory that holds `outrider.toml` with `--config DIR`",
        io::ErrorKind::PermissionDenied => "let the user that runs outrider read it",
        io::ErrorKind::InvalidData => "save it as UTF-8",
        _ => "",
    };
    Fault {
        place: Place::file(path),
        key: String::new(),
        value: None,
        rule: format!("could not be read: {error}"),
        remedy: remedy.into(),
    }
}
