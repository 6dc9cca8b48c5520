"""Settings: six layers of files, read, merged and guarded; passed down as plain values."""
