// Writes a table of quantities with the answers of Kubernetes' own code:
//
//	go run . ../../kube/quantities.txt > table.txt
//
// Each line is a text, a tab, and the bytes it stands for as k8s.io/apimachinery's resource.ParseQuantity and Value
// have it, or one word: bad (it is refused), negative, tiny (above zero and under one byte), big (2^56 bytes or more,
// beyond any GPU; from 2^63 on Value may wrap around). The random part comes from one seed: the same module, the same table.
package main

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

var suffixes = []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
	"e0", "e3", "E3", "e+9", "E+12", "e-3", "E-9", "e18", "e40", "e-40", "e00", "e+", "e", "Ee", "K", "ki", "g", "GB", "GiB", "Zi", "B", "i"}

var numbers = []string{"0", "1", "8", "9", "10", "999", "1000", "1023", "1024", "512", "00", "007", "1.", ".5", "0.5", "1.5", ".", "",
	"0.1", "0.3", "0.7", "1.1", "4.4", "2.000", "0.0000000001", "1.0000000001", "0.000000000000000000001", "123456789.123456789",
	"9007199254740993", "72057594037927935", "72057594037927936", "72057594037927937", "9223372036854775807", "9223372036854775808",
	"18446744073709551616", "999999999999999999999999", "0.999999999999999999999999", "33.3333333333", "1.2.3", "1,5", "0x10", "1_0", " 1"}

func answer(text string) string {
	quantity, err := resource.ParseQuantity(text)
	one, most := resource.MustParse("1"), resource.MustParse("72057594037927936")
	switch {
	case err != nil:
		return "bad"
	case quantity.Sign() < 0:
		return "negative"
	case quantity.Sign() > 0 && quantity.Cmp(one) < 0:
		return "tiny"
	case quantity.Cmp(most) >= 0:
		return "big"
	}
	return fmt.Sprint(quantity.Value())
}

// A text that is, or nearly is, a quantity.
func random(chance *rand.Rand) string {
	const letters = "0123456789+-.eEinumkKMGTP \u0661"
	digits := func(most int) string {
		made := make([]byte, chance.Intn(most+1))
		for i := range made {
			made[i] = "00123456789999"[chance.Intn(14)]
		}
		return string(made)
	}
	text := []string{"", "", "", "+", "-"}[chance.Intn(5)] + digits(20)
	if chance.Intn(2) == 0 {
		text += "." + digits(14)
	}
	text += suffixes[chance.Intn(len(suffixes))]
	if runes := []rune(text); chance.Intn(4) == 0 && len(runes) > 0 {
		runes[chance.Intn(len(runes))] = []rune(letters)[chance.Intn(len([]rune(letters)))]
		text = string(runes)
	}
	return text
}

func main() {
	texts := map[string]bool{}
	for _, sign := range []string{"", "+", "-"} {
		for _, number := range numbers {
			for _, suffix := range suffixes {
				texts[sign+number+suffix] = sign == "" || len(number) < 3
			}
		}
	}
	if file, err := os.Open(os.Args[1]); err == nil {
		for lines := bufio.NewScanner(file); lines.Scan(); {
			texts[strings.SplitN(lines.Text(), "\t", 2)[0]] = true
		}
	}
	chance := rand.New(rand.NewSource(1))
	for i := 0; i < 2500; i++ {
		texts[random(chance)] = true
	}
	var rows []string
	for text, wanted := range texts {
		if wanted && len(text) <= 64 {
			rows = append(rows, text+"\t"+answer(text))
		}
	}
	sort.Strings(rows)
	fmt.Println(strings.Join(rows, "\n"))
}
