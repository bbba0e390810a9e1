//! Functions on URLs and host names, read as a browser reads them (the WHATWG URL standard).
//!
//! A rule about where something goes must read an address as whoever follows it will: user names,
//! default ports, Unicode and IP addresses in odd spellings are what attacks on prefix comparisons are
//! made of.

use std::sync::Arc;

use url::{Host, Url};

use super::{Arg, Builtin, DependsOn, Param, Takes, first, value};
use crate::{
    diag::Span,
    lang::{
        types::Ty,
        val::{Val, Why, WhyKind},
    },
    model::{Num, Value},
};

/// The fields of what `url` gives.
pub const URL_FIELDS: [&str; 7] = ["scheme", "username", "host", "port", "path", "query", "fragment"];

pub(super) const FUNCTIONS: &[Builtin] = &[
    Builtin {
        name: "url",
        params: &[value("text", Ty::String)],
        optional: 0,
        repeats: false,
        gives: Ty::Object,
        depends_on: DependsOn::Arguments,
        doc: "The parts of an absolute URL: `scheme`, `username`, `host` (lower case, IDNA), `port` (a number, the \
              scheme's own if none is written, null if it has none), `path`, `query`, `fragment`; a text that is not \
              there is empty. Unknown if it is no absolute URL.",
        examples: &[
            ("url(\"HTTPS://Bücher.example/a/../b?q=1#f\").host", "\"xn--bcher-kva.example\""),
            ("url(\"https://corp.example@evil.example:8443/x\").host", "\"evil.example\""),
            ("url(\"https://corp.example@evil.example:8443/x\").port", "8443"),
            ("url(\"https://corp.example/a/../b?q=1\").path", "\"/b\""),
            ("url(\"https://corp.example\").port", "443"),
            ("url(\"http://0x7f.1/\").host", "\"127.0.0.1\""),
            ("url(\"file:///etc/passwd\").host", "\"\""),
            ("url(\"mailto:a@corp.example\").port", "null"),
            ("url(\"/a/b\")", "?"),
            ("url(3)", "?"),
        ],
        eval: |args, at| read(args, at),
    },
    Builtin {
        name: "host_within",
        params: &[value("host", Ty::String), Param { name: "domain", takes: Takes::Domain }],
        optional: 0,
        repeats: false,
        gives: Ty::Bool,
        depends_on: DependsOn::Arguments,
        doc: "Whether a host is the domain or lies below it, by whole labels, in any case, with or without the dot at \
              the end, Unicode and IDNA alike; an IP address only equals itself, an empty host lies in no domain. \
              Unknown if either is no host name.",
        examples: &[
            ("host_within(\"Mail.Corp.example.\", \"corp.example\")", "true"),
            ("host_within(\"corp.example\", \"corp.example\")", "true"),
            ("host_within(\"notcorp.example\", \"corp.example\")", "false"),
            ("host_within(\"corp.example.evil.example\", \"corp.example\")", "false"),
            ("host_within(\"bücher.example\", \"xn--bcher-kva.example\")", "true"),
            ("host_within(\"10.0.0.1\", \"0.0.1\")", "false"),
            ("host_within(\"0x7f.1\", \"127.0.0.1\")", "true"),
            ("host_within(\"\", \"corp.example\")", "false"),
            ("host_within(\"corp.example/x\", \"corp.example\")", "?"),
        ],
        eval: within,
    },
];

fn read(args: &[Arg<'_>], at: Span) -> Val {
    let text = first(args);
    let Some(written) = text.as_str() else { return Val::Unknown(text.why(at, "string")) };
    let Ok(url) = Url::parse(written) else { return Val::unknown(WhyKind::Form("absolute URL"), at) };
    let text = |part: Option<&str>| Value::string(part.unwrap_or_default());
    let parts = URL_FIELDS.map(|field| {
        let value = match field {
            "scheme" => text(Some(url.scheme())),
            "username" => text(Some(url.username())),
            "host" => text(url.host_str()),
            "port" => url.port_or_known_default().map_or(Value::Null, |p| Value::Number(Num::from(i64::from(p)))),
            "path" => text(Some(url.path())),
            "query" => text(url.query()),
            _ => text(url.fragment()),
        };
        (Arc::<str>::from(field), value)
    });
    Val::json(Value::object(parts))
}

fn within(args: &[Arg<'_>], at: Span) -> Val {
    let host = first(args);
    let domain = args.get(1).map_or(&Val::Absent, Arg::val);
    let (Some(host_text), Some(domain_text)) = (host.as_str(), domain.as_str()) else {
        let wrong = if host.as_str().is_none() { host } else { domain };
        return Val::Unknown(wrong.why(at, "string"));
    };
    let Some(domain) = parse(domain_text) else { return Val::Unknown(Why::new(WhyKind::Form("host name"), at)) };
    if host_text.is_empty() {
        return Val::bool(false);
    }
    match (parse(host_text), domain) {
        (None, _) => Val::Unknown(Why::new(WhyKind::Form("host name"), at)),
        (Some(Host::Domain(host)), Host::Domain(domain)) => {
            let above = host.strip_suffix(domain.as_str());
            Val::bool(above.is_some_and(|labels| labels.is_empty() || labels.ends_with('.')))
        }
        (Some(host), domain) => Val::bool(host == domain),
    }
}

/// A host name or address as URLs have it, without the dot that ends a full name.
pub(in crate::lang) fn parse(text: &str) -> Option<Host> {
    // An IPv6 address may stand without the brackets that a URL puts around it.
    if let Ok(address) = text.parse() {
        return Some(Host::Ipv6(address));
    }
    match Host::parse(text).ok()? {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            (!name.is_empty() && !name.starts_with('.')).then(|| Host::Domain(name.to_owned()))
        }
        address => Some(address),
    }
}
