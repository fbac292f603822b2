//! Terminal output as HTML: colours, and lines that a program writes again (`\r`).
//!
//! Colours become classes and not inline styles, which the page's policy forbids. So 256 and 16 million colours are shown in the
//! nearest of the sixteen that both themes define.

use vte::{Params, Parser, Perform};

use super::escape::push_escaped;

/// The longest line that is kept, in characters. The rest of a longer line is dropped: the browser would lay it out for minutes.
const MAX_LINE_CHARACTERS: usize = 20_000;

/// The HTML of `text` as a terminal would show it.
pub(super) fn to_html(text: &str) -> String {
    let mut screen = Screen::default();
    let mut parser = Parser::new();
    parser.advance(&mut screen, text.as_bytes());
    screen.finish()
}

/// The sixteen colours by number, as the middle of their class names.
const COLOURS: [&str; 16] = [
    "black",
    "red",
    "green",
    "yellow",
    "blue",
    "magenta",
    "cyan",
    "white",
    "grey",
    "bright-red",
    "bright-green",
    "bright-yellow",
    "bright-blue",
    "bright-magenta",
    "bright-cyan",
    "bright-white",
];

/// How a character looks.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Style {
    foreground: Option<u8>,
    background: Option<u8>,
    is_bold: bool,
    is_dim: bool,
    is_italic: bool,
    is_underlined: bool,
    is_inverse: bool,
    is_struck: bool,
}

impl Style {
    fn push_classes(self, html: &mut String) {
        let (foreground, background) = if self.is_inverse {
            (self.background, self.foreground)
        } else {
            (self.foreground, self.background)
        };
        let mut names = Vec::new();
        if let Some(colour) = foreground {
            names.push(format!("ansi-{}", COLOURS[usize::from(colour) % 16]));
        }
        if let Some(colour) = background {
            names.push(format!("ansi-on-{}", COLOURS[usize::from(colour) % 16]));
        }
        let flags = [
            (self.is_bold, "ansi-bold"),
            (self.is_dim, "ansi-dim"),
            (self.is_italic, "ansi-italic"),
            (self.is_underlined, "ansi-underline"),
            (self.is_struck, "ansi-strike"),
            (self.is_inverse && background.is_none(), "ansi-inverse"),
        ];
        names.extend(
            flags
                .iter()
                .filter(|(is_set, _)| *is_set)
                .map(|(_, name)| (*name).to_owned()),
        );
        html.push_str(&names.join(" "));
    }

    /// Applies the parameters of one `SGR` sequence (`ESC [ … m`).
    fn apply(&mut self, parameters: &Params) {
        let flat: Vec<u16> = parameters.iter().flatten().copied().collect();
        let mut rest = flat.as_slice();
        if rest.is_empty() {
            *self = Self::default();
        }
        while let Some((&code, after)) = rest.split_first() {
            rest = after;
            match code {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                3 => self.is_italic = true,
                4 => self.is_underlined = true,
                7 => self.is_inverse = true,
                9 => self.is_struck = true,
                22 => (self.is_bold, self.is_dim) = (false, false),
                23 => self.is_italic = false,
                24 => self.is_underlined = false,
                27 => self.is_inverse = false,
                29 => self.is_struck = false,
                30..=37 => self.foreground = u8::try_from(code - 30).ok(),
                38 => (self.foreground, rest) = extended_colour(rest),
                39 => self.foreground = None,
                40..=47 => self.background = u8::try_from(code - 40).ok(),
                48 => (self.background, rest) = extended_colour(rest),
                49 => self.background = None,
                90..=97 => self.foreground = u8::try_from(code - 82).ok(),
                100..=107 => self.background = u8::try_from(code - 92).ok(),
                _ => {}
            }
        }
    }
}

/// The colour after 38 or 48, `5;n` or `2;r;g;b`, as one of the sixteen, and the parameters behind it.
fn extended_colour(parameters: &[u16]) -> (Option<u8>, &[u16]) {
    match parameters {
        [5, number, rest @ ..] => (indexed_colour(*number), rest),
        [2, red, green, blue, rest @ ..] => (Some(nearest(*red, *green, *blue)), rest),
        _ => (None, &[]),
    }
}

fn indexed_colour(number: u16) -> Option<u8> {
    match number {
        0..=15 => u8::try_from(number).ok(),
        16..=231 => {
            let level = |step: u16| if step == 0 { 0 } else { 55 + 40 * step };
            let cube = number - 16;
            Some(nearest(
                level(cube / 36),
                level(cube / 6 % 6),
                level(cube % 6),
            ))
        }
        232..=255 => {
            let grey = 8 + 10 * (number - 232);
            Some(nearest(grey, grey, grey))
        }
        _ => None,
    }
}

/// The one of the sixteen colours with the same hue and a similar brightness.
fn nearest(red: u16, green: u16, blue: u16) -> u8 {
    let brightest = red.max(green).max(blue);
    let darkest = red.min(green).min(blue);
    if brightest - darkest < 40 {
        return match brightest {
            0..=63 => 0,
            64..=159 => 8,
            160..=223 => 7,
            _ => 15,
        };
    }
    let middle = (brightest + darkest) / 2;
    let bit = |level: u16, value: u8| if level > middle { value } else { 0 };
    let hue = bit(red, 1) + bit(green, 2) + bit(blue, 4);
    if brightest > 200 { hue + 8 } else { hue }
}

/// What a terminal that is as long as the text would show.
#[derive(Default)]
struct Screen {
    html: String,
    line: Vec<(char, Style)>,
    column: usize,
    style: Style,
}

impl Screen {
    fn end_line(&mut self) {
        let mut open = Style::default();
        let mut text = String::new();
        for (character, style) in std::mem::take(&mut self.line) {
            if style != open {
                push_run(&mut self.html, &text, open);
                text.clear();
                open = style;
            }
            text.push(character);
        }
        push_run(&mut self.html, &text, open);
        self.column = 0;
    }

    fn finish(mut self) -> String {
        self.end_line();
        self.html
    }
}

fn push_run(html: &mut String, text: &str, style: Style) {
    if text.is_empty() {
        return;
    }
    if style == Style::default() {
        return push_escaped(html, text);
    }
    html.push_str("<span class=\"");
    style.push_classes(html);
    html.push_str("\">");
    push_escaped(html, text);
    html.push_str("</span>");
}

impl Perform for Screen {
    fn print(&mut self, character: char) {
        if self.column >= MAX_LINE_CHARACTERS {
            return;
        }
        let cell = (character, self.style);
        match self.line.get_mut(self.column) {
            Some(place) => *place = cell,
            None => self.line.push(cell),
        }
        self.column += 1;
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                self.end_line();
                self.html.push('\n');
            }
            b'\r' => self.column = 0,
            b'\t' => self.print('\t'),
            8 => self.column = self.column.saturating_sub(1),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, parameters: &Params, _: &[u8], _: bool, action: char) {
        let first = || parameters.iter().flatten().copied().next().unwrap_or(0);
        match action {
            'm' => self.style.apply(parameters),
            // Erases the line: to its end, to its beginning, or all of it.
            'K' => match first() {
                0 => self.line.truncate(self.column),
                1 => {
                    let end = self.column.min(self.line.len());
                    self.line[..end].fill((' ', Style::default()));
                }
                _ => self.line.fill((' ', Style::default())),
            },
            'G' => {
                self.column = usize::from(first().max(1) - 1).min(self.line.len());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_classes_and_end_where_they_are_reset() {
        assert_eq!(
            to_html("a \u{1b}[1;31mred\u{1b}[0m b"),
            "a <span class=\"ansi-red ansi-bold\">red</span> b"
        );
        assert_eq!(
            to_html("\u{1b}[38;5;196mx\u{1b}[39;48;2;0;0;255my"),
            "<span class=\"ansi-bright-red\">x</span><span class=\"ansi-on-bright-blue\">y</span>"
        );
    }

    #[test]
    fn a_progress_bar_shows_only_its_last_state() {
        assert_eq!(to_html("10%\r50%\r100%\ndone"), "100%\ndone");
        assert_eq!(to_html("long line\r\u{1b}[Kok"), "ok");
    }

    #[test]
    fn markup_and_titles_of_windows_are_not_markup() {
        assert_eq!(to_html("<b>&\u{1b}]0;<script>\u{7}x"), "&lt;b&gt;&amp;x");
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let html = to_html(&"x".repeat(3 * MAX_LINE_CHARACTERS));
        assert_eq!(html.len(), MAX_LINE_CHARACTERS);
    }
}
