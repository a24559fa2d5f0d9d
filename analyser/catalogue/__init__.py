"""The catalogue of reports: what is known of every report file, in a database of the user's."""
