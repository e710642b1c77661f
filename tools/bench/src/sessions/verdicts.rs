//! The goals, and whether they are met.

use std::fmt::Write as _;

use sessions::caps::AGENTS_RUNNING_DEFAULT;

use super::{AGES, ASKED, ASLEEP, asked, asleep, posts, rest, wakes};
use crate::agent::figures::Figures;

/// How much slower the oldest session may be than the youngest and still count as flat.
const FLAT_RATIO_MAX: f64 = 1.3;
/// How soon the first token should be there after a cold wake, in milliseconds.
const FIRST_TOKEN_MS_P50: f64 = 50.0;
/// Sessions asked at once are limited by the model if they take no more than this many times what
/// it takes for all.
const MODEL_RATIO_MAX: f64 = 2.0;
const START_SECONDS_MAX: f64 = 30.0;
const START_MB_MAX: f64 = 1_000.0;
const SHARE_KEPT_MAX: f64 = 0.20;
/// An erased message must leave the file that it is in, so one segment may be written anew.
const ERASE_KIB_MAX: f64 = 64.0 * 1024.0;

/// Goals with figures.
struct Verdicts<'a> {
    figures: &'a Figures,
    text: String,
}

/// A line for each goal that something was measured for.
pub(super) fn verdicts(figures: &Figures, share: usize) -> String {
    let mut verdicts = Verdicts { figures, text: String::new() };
    verdicts.wakes(share);
    verdicts.asked(share);
    for count in ASLEEP {
        verdicts.asleep(count / share);
    }
    let share = figures.amount_of(rest::SHARE_KEPT);
    verdicts.at_most("compaction: share of the bytes kept", share, SHARE_KEPT_MAX, "");
    let written = figures.amount_of(rest::ERASE_WRITTEN);
    let goal = "erase of one message after a restart: written";
    verdicts.at_most(goal, written, ERASE_KIB_MAX, " KiB");
    match verdicts.text.is_empty() {
        true => String::new(),
        false => format!("| goal | | figure | verdict |\n|---|---:|---:|---|\n{}", verdicts.text),
    }
}

impl Verdicts<'_> {
    fn wakes(&mut self, share: usize) {
        let p50 = |name: String| self.figures.latency(&name).map(|it| it.ms_p50);
        let tokens = AGES.map(|age| p50(wakes::first_token(age / share)));
        let posts = AGES.map(|age| p50(posts::post_warm(age / share)));
        let bytes = AGES.map(|age| self.figures.amount_of(&wakes::read_name(age / share)));
        for (age, ms) in AGES.into_iter().zip(tokens) {
            let goal = format!("first token after a cold wake, p50, {} messages", age / share);
            self.at_most(&goal, ms, FIRST_TOKEN_MS_P50, " ms");
        }
        let ratio = |[young, _, old]: [Option<f64>; 3]| Some(old? / young?);
        let goal = "flat: first token, the oldest session by the youngest";
        self.at_most(goal, ratio(tokens), FLAT_RATIO_MAX, "x");
        // The youngest has fewer messages than a model is told, so less of it can be read.
        let grown = |[_, middle, old]: [Option<f64>; 3]| Some(old? / middle?);
        let goal = "flat: bytes read per cold wake, the oldest by one a tenth as long";
        self.at_most(goal, grown(bytes), FLAT_RATIO_MAX, "x");
        let goal = "flat: POST of a message over HTTP, the oldest by the youngest";
        self.at_most(goal, ratio(posts), FLAT_RATIO_MAX, "x");
    }

    fn asked(&mut self, share: usize) {
        let count = ASKED / share;
        let turns = count.div_ceil(AGENTS_RUNNING_DEFAULT) as f64;
        let seconds = self.figures.amount_of(&asked::all_answered(count));
        let goal = format!("{count} sessions asked at once, the model taking {turns} s for all");
        self.at_most(&goal, seconds, turns * asked::ANSWER_SECONDS * MODEL_RATIO_MAX, " s");
    }

    fn asleep(&mut self, count: usize) {
        let (name, dev) = (asleep::name(count), asleep::dev_name(count));
        let amount = |name: &str, what: &str| self.figures.amount_of(&format!("{name}: {what}"));
        let known = amount(&name, "it is known that they rest");
        let [mb, dev_mb] = [&name, &dev].map(|name| amount(name, "peak of memory"));
        let ready = amount(&dev, "ready");
        self.at_most(&format!("{name}: known to rest"), known, START_SECONDS_MAX, " s");
        self.at_most(&format!("{name}: peak of memory"), mb, START_MB_MAX, " MB");
        self.at_most(&format!("{dev}: ready"), ready, START_SECONDS_MAX, " s");
        self.at_most(&format!("{dev}: peak of memory"), dev_mb, START_MB_MAX, " MB");
    }

    /// Nothing is said of what was not measured.
    fn at_most(&mut self, goal: &str, figure: Option<f64>, max: f64, unit: &str) {
        let Some(figure) = figure else { return };
        let word = if figure <= max { "met" } else { "missed" };
        let shown = match figure {
            ..10.0 => format!("{figure:.2}"),
            _ => format!("{figure:.0}"),
        };
        let _ = writeln!(self.text, "| {goal} | at most {max}{unit} | {shown}{unit} | {word} |");
    }
}
