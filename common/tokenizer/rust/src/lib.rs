//! Hugging Face tokenizers and chat templates behind the C header poolmark_tokenizer.h.

use std::ffi::{c_char, c_int, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;

use minijinja::{Environment, Error, ErrorKind, Value};
use tokenizers::Tokenizer;

pub struct PmTokenizer {
    tokenizer: Tokenizer,
    environment: Environment<'static>,
    globals: serde_json::Map<String, serde_json::Value>,
}

const TEMPLATE: &str = "chat";

/// A C string; interior NULs cannot be carried and are dropped.
fn c_text(text: &str) -> *mut c_char {
    let bytes: Vec<u8> = text.bytes().filter(|b| *b != 0).collect();
    CString::new(bytes).unwrap_or_default().into_raw()
}

unsafe fn text<'a>(data: *const c_char, size: usize) -> Result<&'a str, String> {
    if data.is_null() {
        return Ok("");
    }
    std::str::from_utf8(slice::from_raw_parts(data as *const u8, size)).map_err(|e| format!("the text is not UTF-8: {e}"))
}

/// Runs `body`, turning errors and panics into a text at `error`.
unsafe fn guarded<T>(error: *mut *mut c_char, body: impl FnOnce() -> Result<T, String>) -> Option<T> {
    let problem = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(problem)) => problem,
        Err(_) => "the tokenizer library panicked".to_string(),
    };
    if !error.is_null() {
        *error = c_text(&problem);
    }
    None
}

fn object(json: &str) -> Result<serde_json::Map<String, serde_json::Value>, String> {
    match serde_json::from_str(json) {
        Ok(serde_json::Value::Object(map)) => Ok(map),
        Ok(_) => Err("a JSON object is needed".to_string()),
        Err(e) => Err(format!("not valid JSON: {e}")),
    }
}

/// The moment in local time, as Python's datetime.strftime(), which hands the format to the C library too. Nothing when
/// the format has a NUL or gives no text of up to 256 bytes.
fn strftime(format: &str, moment: libc::time_t) -> Option<String> {
    if format.is_empty() {
        return Some(String::new());
    }
    let format = CString::new(format).ok()?;
    let mut buffer = [0u8; 256];
    // SAFETY: both calls are given memory of their types, the buffer's size, and a format that ends with NUL; a tm of
    // zeros is one.
    let size = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&moment, &mut parts).is_null() {
            return None;
        }
        libc::strftime(buffer.as_mut_ptr() as *mut c_char, buffer.len(), format.as_ptr(), &parts)
    };
    if size == 0 {
        return None;
    }
    String::from_utf8(buffer[..size].to_vec()).ok()
}

fn open(json: &str, jinja: &str, globals: &str) -> Result<PmTokenizer, String> {
    let mut tokenizer: Tokenizer = json.parse().map_err(|e| format!("not a tokenizer: {e}"))?;
    // A file keeps what was last used with it; as transformers' encode() without arguments, texts count whole.
    tokenizer.with_truncation(None).map_err(|e| format!("switching truncation off: {e}"))?;
    tokenizer.with_padding(None);
    let mut environment = Environment::new();
    // As transformers compiles chat templates.
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    // One moment for as long as the tokenizer is open: equal requests render alike.
    let opened_at = unsafe { libc::time(std::ptr::null_mut()) }; // SAFETY: null asks for the value alone
    environment.add_function("strftime_now", move |format: String| -> Result<String, Error> {
        strftime(&format, opened_at).ok_or_else(|| {
            Error::new(ErrorKind::InvalidOperation, format!("strftime_now: no date in the format '{format}'"))
        })
    });
    environment
        .add_template_owned(TEMPLATE, jinja.to_string())
        .map_err(|e| format!("the chat template does not compile: {e}"))?;
    Ok(PmTokenizer { tokenizer, environment, globals: object(globals)? })
}

fn render(handle: &PmTokenizer, messages: &str, kwargs: &str) -> Result<String, String> {
    let mut context = handle.globals.clone();
    context.insert("add_generation_prompt".to_string(), serde_json::Value::Bool(true));
    for (key, value) in object(kwargs)? {
        context.insert(key, value);
    }
    let list: serde_json::Value = serde_json::from_str(messages).map_err(|e| format!("messages: {e}"))?;
    context.insert("messages".to_string(), list);
    let template = handle.environment.get_template(TEMPLATE).map_err(|e| e.to_string())?;
    template.render(Value::from_serialize(&context)).map_err(|e| e.to_string())
}

/// # Safety
/// Pointers and sizes describe readable memory; `error` is writable or null.
#[no_mangle]
pub unsafe extern "C" fn pmtok_open(
    json: *const c_char,
    json_size: usize,
    jinja: *const c_char,
    jinja_size: usize,
    globals: *const c_char,
    globals_size: usize,
    error: *mut *mut c_char,
) -> *mut PmTokenizer {
    let opened = guarded(error, || open(text(json, json_size)?, text(jinja, jinja_size)?, text(globals, globals_size)?));
    opened.map_or(std::ptr::null_mut(), |t| Box::into_raw(Box::new(t)))
}

/// # Safety
/// `handle` came from pmtok_open() and is not used again; null is allowed.
#[no_mangle]
pub unsafe extern "C" fn pmtok_free(handle: *mut PmTokenizer) {
    if !handle.is_null() {
        drop(Box::from_raw(handle));
    }
}

/// # Safety
/// `handle` is live, pointers and sizes describe readable memory, the out pointers are writable.
#[no_mangle]
pub unsafe extern "C" fn pmtok_encode(
    handle: *const PmTokenizer,
    data: *const c_char,
    size: usize,
    special: c_int,
    ids: *mut *mut u32,
    count: *mut usize,
    error: *mut *mut c_char,
) -> c_int {
    let encoded = guarded(error, || {
        let encoding = (*handle).tokenizer.encode_fast(text(data, size)?, special != 0).map_err(|e| e.to_string())?;
        Ok(encoding.get_ids().to_vec().into_boxed_slice())
    });
    match encoded {
        Some(boxed) => {
            *count = boxed.len();
            *ids = Box::into_raw(boxed) as *mut u32;
            0
        }
        None => -1,
    }
}

/// # Safety
/// `ids` and `count` came from one pmtok_encode() call.
#[no_mangle]
pub unsafe extern "C" fn pmtok_free_ids(ids: *mut u32, count: usize) {
    if !ids.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(ids, count)));
    }
}

/// # Safety
/// As pmtok_encode().
#[no_mangle]
pub unsafe extern "C" fn pmtok_render(
    handle: *const PmTokenizer,
    messages: *const c_char,
    messages_size: usize,
    kwargs: *const c_char,
    kwargs_size: usize,
    out: *mut *mut c_char,
    error: *mut *mut c_char,
) -> c_int {
    match guarded(error, || render(&*handle, text(messages, messages_size)?, text(kwargs, kwargs_size)?)) {
        Some(rendered) => {
            *out = c_text(&rendered);
            0
        }
        None => -1,
    }
}

/// # Safety
/// `data` was given out by this library; null is allowed.
#[no_mangle]
pub unsafe extern "C" fn pmtok_free_text(data: *mut c_char) {
    if !data.is_null() {
        drop(CString::from_raw(data));
    }
}
