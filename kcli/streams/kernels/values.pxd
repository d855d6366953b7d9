cpdef object to_bytes(object serde, object value)
cpdef object from_bytes(object serde, object data)
