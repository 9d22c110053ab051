package objects

// HashesIn finds all in a text that may be the name of an object.
func HashesIn(data []byte, found func(hash string)) {
	const size = 64
	begin := 0
	for i := 0; i <= len(data); i++ {
		if i < len(data) && (data[i] >= '0' && data[i] <= '9' || data[i] >= 'a' && data[i] <= 'f') {
			continue
		}
		for ; i-begin >= size; begin++ { // of a longer one each part may be
			found(string(data[begin : begin+size]))
		}
		begin = i + 1
	}
}
