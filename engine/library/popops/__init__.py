"""Operations on tensors, as PopLibs' popops, by subject."""
