package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CalcTest {
    @Test
    void add() {
        assertEquals(3, Calc.add(1, 2));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 5, 10})
    void clamp(int n) {
        assertEquals(n, Calc.clamp(n));
    }

    @ParameterizedTest(name = "{0} is {1}")
    @CsvSource({"11, 10", "3, 3"})
    void clamped(int n, int want) {
        assertEquals(want, Calc.clamp(n));
    }

    @Test
    @DisplayName("sums, with ( and ::")
    void sum() {
        assertEquals(6, Calc.sum(3));
    }

    @RepeatedTest(2)
    void upper() {
        assertEquals("ABI", Calc.upper("abi"));
    }

    @TestFactory
    DynamicTest dynamic() {
        return DynamicTest.dynamicTest("of its own", () -> assertEquals(7, new Shop().price(6)));
    }

    @Test
    @Disabled("a skipped one")
    void skipped() {
        assertFalse(true);
    }

    @Nested
    class Inside {
        @Test
        void once() {
            assertEquals(1, Calc.once());
        }
    }
}
