package com.example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CartTest {
    @AfterEach
    void tearDown(TestInfo info) {
        if (info.getTestMethod().get().getName().equals("tornDownBadly")) {
            throw new IllegalStateException("torn down badly");
        }
    }

    @Test
    void adds() {
        assertEquals(3, Cart.sum(1, 2));
    }

    @Test
    void fails() {
        assertEquals(4, Cart.sum(1, 2), "\u001b[31mred\u001b[0m & <tag> ]]>");
    }

    @Test
    void raises() {
        throw new IllegalArgumentException("bad");
    }

    @Test
    void tornDownBadly() {}

    @Test
    @Disabled("not here")
    void disabled() {}

    @Test
    void assumes() {
        assumeTrue(false, "no");
    }

    @Test
    @DisplayName("Grüße, 世界 with spaces")
    void unicode() {}

    @Test
    void prints() {
        System.out.println("<testcase name=\"fails\" classname=\"com.example.CartTest\"/>");
        System.out.println("</system-out></testcase><testcase name=\"fails\"/>]]><testcase name=\"x\"/>");
        System.out.println("[INFO] Tests run: 1, Failures: 0\n[INFO] BUILD SUCCESS \u001b[32mgreen\u001b[0m");
    }

    @ParameterizedTest
    @CsvSource({"1, 2", "2, 1", "0, 3"})
    void parametrised(int a, int b) {
        assertEquals(3, Cart.sum(a, b));
    }

    @ParameterizedTest(name = "{0} is text")
    @ValueSource(strings = {"a b", "x/y", "a b", "größer"})
    void named(String s) {
        assertTrue(s.length() > 0);
    }

    @RepeatedTest(2)
    void repeated() {}

    @Nested
    class Inner {
        @Test
        void adds() {}
    }
}
