package com.example;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class SetupTest {
    @BeforeAll
    static void setUp() {
        throw new IllegalStateException("no set-up");
    }

    @Test
    void never() {}
}
