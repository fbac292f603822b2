//! Small texts without an allocator: numbers into paths and maps, numbers out of `/proc`.

use core::ffi::CStr;
use core::fmt::{Result, Write};

/// A text of at most `N - 1` bytes that always ends in a zero byte. What does not fit is an error, never cut.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    /// Formats a text.
    pub fn new(arguments: core::fmt::Arguments<'_>) -> crate::sys::Result<Self> {
        let mut text = Text {
            bytes: [0; N],
            length: 0,
        };
        text.write_fmt(arguments)
            .map_err(|_| crate::sys::Errno::OVERFLOW)?;
        Ok(text)
    }

    /// Without the zero byte.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// As the kernel wants it.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, text: &str) -> Result {
        let end = self.length + text.len();
        if end >= N {
            return Err(core::fmt::Error);
        }
        self.bytes[self.length..end].copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// The number that `bytes` are the hexadecimal digits of.
pub fn hexadecimal(bytes: &[u8]) -> Option<u64> {
    let digits = core::str::from_utf8(bytes).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

/// The number at the start of `bytes`, if there is one.
pub fn leading_number(bytes: &[u8]) -> Option<u64> {
    let digits = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits == 0 {
        return None;
    }
    bytes[..digits].iter().try_fold(0u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}
