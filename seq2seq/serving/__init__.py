"""Translation over HTTP: LibreTranslate's interface, with dynamic batches and bounded queues."""
