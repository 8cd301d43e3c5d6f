use super::*;
use alloc::vec;

const SPECS: &[ParamSpec] = &[
    ParamSpec::new("rate", Kind::Rate, "1Gbps", "", "").range(1.0, 1e13),
    ParamSpec::new("delay", Kind::Duration, "20us", "", ""),
    ParamSpec::new("buffer", Kind::Amount, "32KB", "", "").range(1.0, 1e9),
    ParamSpec::new("g", Kind::Float, "0.0625", "", "").range(0.0, 1.0),
    ParamSpec::new("mode", Kind::Choice(&["a", "b"]), "a", "", ""),
];
fn parse(key: &str, value: &str) -> Result<Params, ParamError> {
    Params::parse("test", SPECS, &[(key.into(), value.into())])
}

#[test]
fn units_are_understood() {
    assert_eq!(parse("rate", "2.5 Gbps").unwrap().rate("rate"), Rate(2_500_000_000));
    assert_eq!(parse("delay", "0.3ms").unwrap().dur("delay"), Dur::micros(300));
    assert_eq!(parse("delay", "1e-3s").unwrap().dur("delay"), Dur::millis(1));
    assert_eq!(parse("buffer", "32KiB").unwrap().amount("buffer"), Amount::Bytes(32768));
    assert_eq!(parse("buffer", "100pkt").unwrap().amount("buffer"), Amount::Packets(100));
}
#[test]
fn messages_name_key_value_and_rule() {
    let message = |k: &str, v: &str| parse(k, v).unwrap_err().to_string();
    assert_eq!(
        message("rate", "10"),
        "rate = \"10\": must be a rate with a unit (bps, kbps, Mbps, Gbps), for example 1Gbps"
    );
    assert_eq!(message("buffer", "-1KB"), "buffer = \"-1KB\": must be at least 1");
    for number in ["20", " 20 ", "0", "2e3"] {
        let text = number.trim();
        assert_eq!(
            message("buffer", number),
            format!("buffer = {text:?}: must have a unit, as packets and bytes are possible: {text}pkt or {text}B")
        );
    }
    assert_eq!(message("g", "2"), "g = \"2\": must be at most 1");
    assert_eq!(message("mode", "c"), "mode = \"c\": must be one of a, b");
    assert_eq!(message("bufer", "1"), "bufer = \"1\": unknown key of test; did you mean buffer?");
}
#[test]
fn what_was_probably_meant_is_said_whatever_the_case() {
    let message = |k: &str, v: &str| parse(k, v).unwrap_err().to_string();
    assert_eq!(message("Rate", "1Gbps"), "Rate = \"1Gbps\": unknown key of test; did you mean rate?");
    assert_eq!(message("mode", "A"), "mode = \"A\": must be one of a, b; did you mean a?");
    assert_eq!(
        message("rate", "10gbps"),
        "rate = \"10gbps\": must be a rate with a unit (bps, kbps, Mbps, Gbps); did you mean 10Gbps?"
    );
    assert_eq!(nearest("DCTPC", ["dctcp", "d2tcp", "d3"].into_iter()), Some("dctcp"));
    assert_eq!(nearest("DCTCP", ["d2tcp", "dctcp"].into_iter()), Some("dctcp"));
    assert_eq!(nearest("xyz", ["d3"].into_iter()), None);
}
#[test]
fn a_derived_value_is_what_its_text_says_and_a_given_one_stays() {
    let specs = [
        ParamSpec::new("gap", Kind::Duration, "", "", "").range(0.0, 1.0),
        ParamSpec::new("window", Kind::Amount, "", "", ""),
    ];
    let mut p = Params::parse("test", &specs, &[]).unwrap();
    p.derive("gap", 20e-6, "the link");
    p.derive("gap", 1.0, "something else");
    p.derive("window", 1234.5, "the pipe");
    assert_eq!((p.text("gap"), p.dur("gap"), p.is_given("gap")), ("20us", Dur::micros(20), false));
    assert_eq!(p.amount("window"), Amount::Bytes(1235));
    assert_eq!(p.derived().next(), Some(("gap", "20us", "the link")));
    let mut p = Params::parse("test", &specs, &[("gap".into(), "1ms".into())]).unwrap();
    p.derive("gap", 20e-6, "the link");
    assert_eq!((p.dur("gap"), p.derived().count()), (Dur::millis(1), 0));
    let mut p = Params::parse("test", &specs, &[]).unwrap();
    p.derive("gap", 20.0, "a slow link");
    assert_eq!(p.text("gap"), "1s");
}
#[test]
fn keys_that_nothing_read_are_known() {
    let p = parse("g", "0.5").unwrap();
    assert_eq!(p.without_effect(), vec!["g"]);
    assert_eq!(p.float("g"), 0.5);
    assert!(p.without_effect().is_empty());
}
#[test]
fn specs_split() {
    let (name, given) = parse_spec("protocol", "dctcp:g=0.0625").unwrap();
    assert_eq!((name.as_str(), given[0].1.as_str()), ("dctcp", "0.0625"));
    assert!(parse_spec("queue", "red:min").is_err());
}
