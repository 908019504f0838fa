//! Python's buffers as slices, and vectors as Python's buffers: the only unsafe code.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

/// The bytes of any contiguous buffer, for as long as the interpreter is held.
///
/// The token that comes with the buffer keeps the result from outliving either. A function may let go
/// of the interpreter meanwhile only where the buffer is that of a `bytes`, which nobody can change.
pub fn held<'a>(buffer: &'a PyUntypedBuffer, _py: Python<'a>) -> PyResult<&'a [u8]> {
    if !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("a buffer with gaps"));
    }
    let (start, size) = (buffer.buf_ptr() as *const u8, buffer.len_bytes());
    if size == 0 || start.is_null() {
        return Ok(&[]);
    }
    // SAFETY: the exporter keeps `size` bytes at `start` in place until `buffer` is dropped, they are
    // contiguous, any alignment does for bytes, and nobody writes to them: they are those of a `bytes`,
    // or this thread holds the interpreter (the module says that it needs it: `gil_used`).
    Ok(unsafe { std::slice::from_raw_parts(start, size) })
}

/// Numbers or bytes that were made here, for whoever takes a buffer; nobody changes them.
#[pyclass(frozen, module = "ottla_native")]
pub struct Chunk(Content);

enum Content {
    Bytes(Vec<u8>),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
}

impl From<Vec<u8>> for Chunk {
    fn from(content: Vec<u8>) -> Self {
        Chunk(Content::Bytes(content))
    }
}

impl From<Vec<i32>> for Chunk {
    fn from(content: Vec<i32>) -> Self {
        Chunk(Content::Ints(content))
    }
}

impl From<Vec<i64>> for Chunk {
    fn from(content: Vec<i64>) -> Self {
        Chunk(Content::Longs(content))
    }
}

#[pymethods]
impl Chunk {
    // SAFETY: Python calls this with a view that is to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let (start, size) = match &slf.get().0 {
            Content::Bytes(content) => (content.as_ptr() as *mut c_void, content.len()),
            Content::Ints(content) => (content.as_ptr() as *mut c_void, content.len() * 4),
            Content::Longs(content) => (content.as_ptr() as *mut c_void, content.len() * 8),
        };
        // SAFETY: the vector is never touched again (`frozen`), and lives as long as the view: it
        // holds a reference to its owner. It is read-only, so nobody writes through the pointer.
        let failed = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, size as ffi::Py_ssize_t, 1, flags)
        };
        if failed == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }

    fn __len__(&self) -> usize {
        match &self.0 {
            Content::Bytes(content) => content.len(),
            Content::Ints(content) => content.len() * 4,
            Content::Longs(content) => content.len() * 8,
        }
    }
}
