//! Characters that a reader does not see, but that change how the text around them is read.

/// Whether a character takes no space on the screen of its own: it turns the direction of a text, joins or separates its neighbours,
/// picks a form of one, or is nothing at all. Combining accents are none of them, for they are seen.
///
/// The categories are those of Unicode 16: Bidi_Control, Default_Ignorable_Code_Point, and Cf without the signs that are seen (such as
/// the Arabic sign of a number).
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Whether a character of a name can be taken for a plain space or for nothing, although running text needs it: spaces of other widths, signs
/// that are blank, and signs of category Cf, which stand before digits and have no width on many terminals.
pub(crate) fn is_blank_in_name(c: char) -> bool {
    matches!(
        c,
        '\u{a0}'
            | '\u{600}'..='\u{605}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200a}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{2800}'
            | '\u{3000}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13441}'..='\u{13442}'
            | '\u{16fe4}'
            | '\u{1d159}'
    )
}

/// Whether an invisible character is part of an emoji where it stands: the joiner between two pictures, or the selector that makes a
/// sign a picture.
pub(crate) fn is_in_emoji(c: char, before: Option<char>, after: Option<char>) -> bool {
    let is_after_picture = before.is_some_and(is_picture);
    match c {
        JOINER => {
            (is_after_picture || before == Some(PICTURE_SELECTOR)) && after.is_some_and(is_picture)
        }
        PICTURE_SELECTOR => {
            let is_key = before.is_some_and(|c| matches!(c, '0'..='9' | '#' | '*'));
            is_after_picture || (is_key && after == Some(KEYCAP))
        }
        TEXT_SELECTOR => is_after_picture,
        _ => false,
    }
}

const JOINER: char = '\u{200d}';
const TEXT_SELECTOR: char = '\u{fe0e}';
const PICTURE_SELECTOR: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';

/// The blocks that have emoji, skin colours included. A few signs in them are none; nothing depends on those.
fn is_picture(c: char) -> bool {
    matches!(
        c,
        '\u{a9}'
            | '\u{ae}'
            | '\u{203c}'
            | '\u{2049}'
            | '\u{2122}'
            | '\u{2139}'
            | '\u{2190}'..='\u{21ff}'
            | '\u{2300}'..='\u{23ff}'
            | '\u{24c2}'
            | '\u{25a0}'..='\u{27bf}'
            | '\u{2900}'..='\u{297f}'
            | '\u{2b00}'..='\u{2bff}'
            | '\u{3030}'
            | '\u{303d}'
            | '\u{3297}'
            | '\u{3299}'
            | '\u{1f000}'..='\u{1faff}'
    )
}
