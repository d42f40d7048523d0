"""The wing that explains, compares and draws models; the core trains and translates without it."""
